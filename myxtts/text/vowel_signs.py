"""Persian vowel signs, which are written only where a reader would guess wrong.

The normaliser works on words without signs, so that a word is treated the same with and without
them; afterwards the signs are restored on the words that remain.
"""

from __future__ import annotations

import itertools
import re
from difflib import SequenceMatcher

TANVIN = "\u064b"
FATHA, ZAMMA, KASRA, TASHDID = "\u064e", "\u064f", "\u0650", "\u0651"
HAMZA_ABOVE = "\u0654"
# Includes the endings -on and -en of Arabic words. Sukun is excluded: with it espeak-ng does not
# find the word in its dictionary, and reads no word better.
_VOWELS = f"\u064c\u064d{FATHA}{ZAMMA}{KASRA}"
VOWEL_SIGNS = _VOWELS + TASHDID

_LETTER = r"[^\W\d_]"
_MARKS = f"[{VOWEL_SIGNS}{TANVIN}{HAMZA_ABOVE}]"
WORD = re.compile(rf"(?:{_LETTER}{_MARKS}*)+")
_LETTER_AND_MARKS = re.compile(rf"({_LETTER})({_MARKS}*)")
_SIGN = re.compile(f"[{VOWEL_SIGNS}]")
_PERSIAN_LETTER = re.compile("[ء-ۓ]")


def letters_and_marks(word: str) -> list[tuple[str, str]]:
    """Each letter of a word with its signs."""
    return _LETTER_AND_MARKS.findall(word)


def carry_signs(written: str, spoken: str) -> str:
    """`spoken`, which has no vowel signs, with those of the same words in `written`.

    Both use the same letters. Signs without a letter are dropped.
    """
    signed = [letters_and_marks(word) for word in WORD.findall(written)]
    matcher = SequenceMatcher(
        None,
        [_letters(word) for word in signed],
        [_letters(letters_and_marks(word)) for word in WORD.findall(spoken)],
    )
    source_of = {
        block.b + offset: signed[block.a + offset]
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    }
    numbers = itertools.count()
    return WORD.sub(lambda word: _with_signs(word.group(), source_of.get(next(numbers))), spoken)


def without_signs(text: str) -> str:
    return _SIGN.sub("", text)


def _letters(word: list[tuple[str, str]]) -> str:
    return "".join(letter for letter, _ in word)


def _with_signs(word: str, source: list[tuple[str, str]] | None) -> str:
    if source is None:
        return word
    signed = ""
    for (letter, own), (_, written) in zip(letters_and_marks(word), source, strict=True):
        marks = _SIGN.sub("", own)
        signed += letter + (_signs(letter, written, marks) or own.replace(marks, "")) + marks
    return signed


def _signs(letter: str, written: str, marks: str) -> str:
    """At most one vowel and a tashdid; tanvin counts as a vowel."""
    if not _PERSIAN_LETTER.match(letter):
        return ""
    vowel = next((sign for sign in written if sign in _VOWELS), "")
    return ("" if TANVIN in marks else vowel) + (TASHDID if TASHDID in written else "")
