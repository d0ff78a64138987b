"""The registry of languages: tags such as en_US or fa-IR, scripts, and text in several languages.

A tag is parsed once where it enters (a corpus, a setting, an option) and is a canonical code from
then on. Languages without an entry get the general rules and their espeak-ng voice.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from myxtts.errors import DataError, quoted
from myxtts.text.english import ENGLISH
from myxtts.text.general import LATIN, Language, general_language, languages_of, script_of
from myxtts.text.persian import PERSIAN

# Tags of espeak-ng voices. A table instead of a call: which tags mean the same language is part of
# a run's vocabulary. It must not depend on the installed version.
_NAMED_BY_THEIR_TAG = """
    af am an ar as az ba be bg bn bpy bs ca ca-ba ca-nw ca-va chr cmn cmn-latn-pinyin cs cv cy da
    de el en-029 en-gb-scotland en-gb-x-gbclan en-gb-x-gbcwmd en-gb-x-rp en-shaw en-us en-us-nyc eo
    es es-419 et eu fa fa-latn fi fo fr fr-be fr-ch ga gd gn grc gu hak haw he hi hr ht hu hy hyw
    ia id io is it ja jbo ka kaa kk kl kn ko kok ku ky la lb lfn lt ltg lv mi mk ml mr ms mt mto my
    nb nci ne nl nog om or pa pap piqd pl pt pt-br py qdb qu quc qya ro ru ru-cl ru-lv sd shn si
    sjn sk sl smj sq sr sv sw ta te th ti tk tn tr tt ug uk ur uz vi vi-vn-x-central vi-vn-x-south
    xex yue yue-latn-jyutping
"""
VOICES = {tag: tag for tag in _NAMED_BY_THEIR_TAG.split()} | {
    "en-gb": "en",
    "no": "nb",
    "zh": "cmn",
}

# Regions without a voice that do not sound like the language's main variety.
_REGIONS = {
    "en-gb": "au nz uk za",
    "es-419": "ar bo cl co cr cu do ec gt hn mx ni pa pe pr py sv us uy ve",
}
SPOKEN_LIKE = {
    f"{variety.partition('-')[0]}-{region}": variety
    for variety, regions in _REGIONS.items()
    for region in regions.split()
}


REGISTRY: Mapping[str, Language] = {
    language.code: language
    for language in (
        ENGLISH,
        PERSIAN,
    )
}
# Increase when a tag changes its meaning, so that corpora are read again.
TAG_RULES = 1

_TAG = re.compile(r"[a-z]{2,3}(?:-[a-z0-9]{1,8}){0,7}")


def parse_tag(tag: str, where: str = "language") -> str:
    """Return the canonical code of a tag; errors name `where` it was given.

    The espeak-ng voices decide which part of a tag counts: en_US is en, pt-BR is pt-br, fa-IR and
    fa-Arab are fa. For an unknown language the whole tag counts.
    """
    if not _TAG.fullmatch(_plain(tag)):
        raise DataError(
            f"{where}: found {quoted(tag)}, expected a language tag such as "
            f"{', '.join(REGISTRY)} or pt-BR{nearest_tag(tag)}"
        )
    return find_language(tag).code


@functools.lru_cache(maxsize=1_024)
def find_language(tag: str) -> Language:
    """Return the entry for a tag; unknown tags get the general rules."""
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
    """Return `; did you mean 'x'?` for the closest of all or the given codes, or nothing."""
    names = {name.lower(): code for code, one in REGISTRY.items() for name in one.names}
    known = {code: code for code in (*VOICES, *REGISTRY)} | names
    wanted = [name for name, code in known.items() if codes is None or code in codes]
    near = difflib.get_close_matches(_plain(tag), wanted, n=1, cutoff=0.6)
    return f"; did you mean '{known[near[0]]}'?" if near else ""


def _plain(tag: str) -> str:
    return tag.strip().replace("_", "-").lower()


def _known_code(language: str, *subtags: str) -> str | None:
    """Return the longest prefix of a tag that has an entry or a voice."""
    # Extensions, as in fa-u-nu-latn, do not affect speech.
    parts = list(itertools.takewhile(lambda part: len(part) > 1 or part == "x", subtags))
    for length in range(len(parts), -1, -1):
        for kept in itertools.combinations(parts, length):
            code = "-".join((language, *kept))
            code = SPOKEN_LIKE.get(code, code)
            if code in REGISTRY or code in VOICES:
                return code
    return None


def normalize(text: str, language: str, *, keep_vowel_signs: bool = False) -> str:
    """Return the spoken form of text in the given language, such as "en", "en-us" or "fa".

    Persian vowel signs determine how espeak-ng reads a word; without them a word has one spelling.
    """
    entry = find_language(language)
    step = entry.normalize
    if keep_vowel_signs and entry.normalize_for_phonemes is not None:
        step = entry.normalize_for_phonemes
    return step(text) or _bare_letters(text)


def _bare_letters(text: str) -> str:
    return "".join(filter(str.isalpha, unicodedata.normalize("NFC", text)))


class LanguagePart(NamedTuple):
    text: str
    language: str


def language_parts(text: str, main: str, languages: Sequence[str]) -> list[LanguagePart]:
    """Split a text by language.

    Words in another script than that of `main` belong to the first of the other languages with that
    script. Numbers and marks belong to the previous part.
    """
    parts: list[LanguagePart] = []
    for word in text.split():
        language = _language_of(word, main, languages)
        if language is None:
            language = parts[-1].language if parts else main
        if parts and parts[-1].language == language:
            parts[-1] = LanguagePart(f"{parts[-1].text} {word}", language)
        else:
            parts.append(LanguagePart(word, language))
    return parts


def main_language(parts: Sequence[tuple[str, str]], default: str) -> str:
    """Return the language of most letters in parts as from `language_parts`."""
    letters: Counter[str] = Counter()
    for text, language in parts:
        letters[language] += sum(map(str.isalpha, text))
    most = max(letters.values(), default=0)
    return default if letters[default] == most else letters.most_common(1)[0][0]


def _language_of(word: str, main: str, languages: Sequence[str]) -> str | None:
    """Return the language of a word, or None without letters."""
    scripts = Counter(script_of(character) for character in word if character.isalpha())
    if not scripts:
        return None
    [(script, _)] = scripts.most_common(1)
    if script in find_language(main).scripts:
        return main
    return next((one for one in languages if script in find_language(one).scripts), main)


def other_script(text: str, language: str, *, takes_latin: bool = False) -> str | None:
    """Return the script of most letters, unless the language uses it.

    With `takes_latin` Latin words are fine: espeak-ng reads them in every language.
    """
    letters = Counter(script_of(letter) for letter in text if letter.isalpha())
    if not letters:
        return None
    scripts = find_language(language).scripts | (LATIN if takes_latin else frozenset())
    foreign = sum(count for script, count in letters.items() if script not in scripts)
    if 2 * foreign <= letters.total():
        return None
    return next(script for script, _ in letters.most_common() if script not in scripts)


def suggested_language(script: str) -> str:
    """Return a language with a script: the one with rules here, or several to choose from."""
    own = [code for code, language in REGISTRY.items() if script in language.scripts]
    known = own[:1] or languages_of(script)
    return known[0] if len(known) == 1 else f"TAG ({', '.join(known) or 'such as en'})"


def script_name(script: str) -> str:
    return script if script == "CJK" else script.title()
