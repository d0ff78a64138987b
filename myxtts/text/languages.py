"""The registry of languages, and the parsing of tags such as en_US or fa-IR.

A tag is parsed once where it enters (a corpus, a setting, an option) and is a canonical code from
then on. Languages without an entry get the general rules and their espeak-ng voice.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import itertools
import re
from collections.abc import Mapping

from myxtts.errors import DataError
from myxtts.text import espeak
from myxtts.text.english import ENGLISH
from myxtts.text.espeak_voices import SPOKEN_LIKE, VOICES
from myxtts.text.general import general_language
from myxtts.text.language import Language
from myxtts.text.persian import PERSIAN

REGISTRY: Mapping[str, Language] = {
    language.code: language
    for language in (
        ENGLISH,
        PERSIAN,
    )
}
# Increase it when a tag changes its meaning, so that corpora are read again.
TAG_RULES = 1

_SHOWN_CHARACTERS = 40
_TAG = re.compile(r"[a-z]{2,3}(?:-[a-z0-9]{1,8}){0,7}")


def parse_tag(tag: str, where: str = "language") -> str:
    """The canonical code of a tag; errors name `where` it was given.

    The espeak-ng voices decide which part of a tag counts: en_US is en, pt-BR is pt-br, fa-IR and
    fa-Arab are fa. For an unknown language the whole tag counts.
    """
    if not _TAG.fullmatch(_plain(tag)):
        raise DataError(
            f"{where}: found {_beginning(tag)!r}, expected a language tag such as "
            f"{', '.join(REGISTRY)} or pt-BR{nearest_tag(tag)}"
        )
    return find_language(tag).code


@functools.lru_cache(maxsize=1_024)
def find_language(tag: str) -> Language:
    """The entry for a tag; unknown tags get the general rules."""
    plain = _plain(tag)
    if not _TAG.fullmatch(plain):
        return general_language(tag, tag)
    code = _known_code(*plain.split("-"))
    if code is None:
        return general_language(plain, plain)
    voice = VOICES.get(code, code)
    entry = REGISTRY.get(code.partition("-")[0])
    if entry is None:
        return general_language(code, voice)
    if code == entry.code or voice == entry.espeak_voice:
        return entry
    return entry.variety(code, voice)


@functools.lru_cache(maxsize=1_024)
def nearest_tag(tag: str, codes: tuple[str, ...] | None = None) -> str:
    """`; did you mean 'x'?` for the closest of all codes or the given ones, or an empty string."""
    known = {
        name: code for name, code in _codes_by_name().items() if codes is None or code in codes
    }
    near = difflib.get_close_matches(_plain(tag), known, n=1, cutoff=0.6)
    return f"; did you mean '{known[near[0]]}'?" if near else ""


def _beginning(tag: str) -> str:
    """A misread language column may contain whole texts."""
    return tag if len(tag) <= _SHOWN_CHARACTERS else f"{tag[:_SHOWN_CHARACTERS]}..."


def _plain(tag: str) -> str:
    return tag.strip().replace("_", "-").lower()


def _known_code(language: str, *subtags: str) -> str | None:
    """The longest prefix of a tag that has an entry or a voice."""
    # Extensions, as in fa-u-nu-latn, do not affect speech.
    parts = list(itertools.takewhile(lambda part: len(part) > 1 or part == "x", subtags))
    for length in range(len(parts), -1, -1):
        for kept in itertools.combinations(parts, length):
            code = "-".join((language, *kept))
            code = SPOKEN_LIKE.get(code, code)
            if code in REGISTRY or code in VOICES:
                return code
    return None


@functools.cache
def _codes_by_name() -> dict[str, str]:
    """Tags and English names of languages, in lower case."""
    names: dict[str, str] = {}
    with contextlib.suppress(ImportError, OSError):  # a hint must not cause an error
        names = {
            name: find_language(voice).code for name, voice in espeak.voices_by_language().items()
        }
    names |= {code: code for code in VOICES}
    for code, entry in REGISTRY.items():
        names |= {name.lower(): code for name in (code, *entry.names)}
    return names
