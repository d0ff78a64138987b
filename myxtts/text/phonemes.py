"""Sentences to phoneme symbols, with punctuation kept.

A symbol is a base character with its modifiers: the stress mark before a vowel and the length mark
or diacritic after it. Each symbol then is a sound that lasts at least one frame, which a stress
mark alone is not.
"""

from __future__ import annotations

import functools
import re
import unicodedata

from myxtts.text import espeak
from myxtts.text.languages import find_language

_PUNCTUATION = re.compile(r"([.,;:?!،؛؟…])")
_PERSIAN_TO_LATIN = str.maketrans("،؛؟", ",;?")
# Increase it when the same text gives other symbols, so that features are prepared again.
TEXT_RULES = 3
STRESS_MARKS = "ˈˌ"
# espeak-ng returns "(en)word(fa)" for a word in another language.
_LANGUAGE_SWITCH = re.compile(r"\([a-z-]+\)")


@functools.lru_cache(maxsize=4_096)
def phoneme_symbols(
    text: str, language: str, *, ezafe: bool = True, rules: int = TEXT_RULES
) -> tuple[str, ...]:
    """Return the symbols of a normalized text: phonemes, ' ' between words, punctuation marks.

    `ezafe` is text.ezafe of the configuration, `rules` the version that a run was trained with.
    """
    entry = find_language(language)
    symbols: list[str] = []
    for part in _PUNCTUATION.split(text):
        if _PUNCTUATION.fullmatch(part):
            symbols.append(part.translate(_PERSIAN_TO_LATIN))
        elif part.strip():
            if entry.phonemes is not None:
                said = entry.phonemes(part, ezafe, rules)
            else:
                said = espeak.phonemes(part, entry.espeak_voice)
            spoken = _LANGUAGE_SWITCH.sub("", said)
            if symbols and spoken:
                symbols.append(" ")
            symbols.extend(split_symbols(spoken))
    return tuple(symbols)


def split_symbols(phonemes: str) -> list[str]:
    """'mˈɛʒɚː' -> ['m', 'ˈɛ', 'ʒ', 'ɚː']."""
    symbols: list[str] = []
    stress = ""
    for character in phonemes:
        if character in STRESS_MARKS:
            stress = character
        elif character.isspace():
            symbols.append(" ")
        elif symbols and symbols[-1] != " " and is_modifier(character):
            symbols[-1] += character
        else:
            symbols.append(stress + character)
            stress = ""
    return symbols


def is_modifier(character: str) -> bool:
    """Return whether it belongs to the character before it: a length mark or a diacritic."""
    return unicodedata.category(character) in ("Lm", "Mn", "Sk")
