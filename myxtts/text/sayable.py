"""Which characters of a normalised text can be pronounced in its language."""

from __future__ import annotations

import functools
import unicodedata

from myxtts.text.languages import find_language
from myxtts.text.phonemes import phoneme_symbols
from myxtts.text.scripts import LATIN, script_of


def unsayable(words: str, language: str, kind: str) -> list[str]:
    """Characters of a normalised text that would be silent or read as the name of a letter.

    `kind` is text.tokens of the configuration. Graphemes must be letters of the language's script;
    espeak-ng also reads Latin words, and numbers and signs that it knows.
    """
    return [
        character for character in sorted(set(words)) if not _sayable(character, language, kind)
    ]


@functools.lru_cache(maxsize=16_384)
def _sayable(character: str, language: str, kind: str) -> bool:
    group = unicodedata.category(character)[0]
    if group == "L":
        known = find_language(language).scripts | (LATIN if kind == "phonemes" else frozenset())
        return script_of(character) in known or unicodedata.category(character) == "Lm"
    if group in "NS":
        return kind == "phonemes" and bool(phoneme_symbols(character, language))
    return True
