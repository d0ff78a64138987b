"""Respells Persian words with vowel signs so that espeak-ng pronounces them correctly.

espeak-ng pronounces every sign, so a sign and a letter for the same sound are both pronounced, and
some endings are lost. Words without signs are unchanged.
"""

from __future__ import annotations

import functools

from myxtts.text import espeak
from myxtts.text.vowel_signs import (
    FATHA,
    HAMZA_ABOVE,
    KASRA,
    TASHDID,
    VOWEL_SIGNS,
    WORD,
    ZAMMA,
    letters_and_marks,
)

_ALEFS = "اآأ"
_NOTHING = ("", "")

Letters = list[tuple[str, str]]


def spelt_for_espeak(text: str) -> str:
    return WORD.sub(lambda word: _spelt(word.group()), text)


@functools.lru_cache(maxsize=4_096)
def _spelt(word: str) -> str:
    if not any(sign in word for sign in VOWEL_SIGNS):
        return word
    return _joined(_with_silent_he(_with_one_ezafe(_with_single_vowels(letters_and_marks(word)))))


def _with_single_vowels(letters: Letters) -> Letters:
    """Removes signs that repeat a neighbouring letter; tashdid first, or its name is read."""
    spelt = []
    for index, (letter, marks) in enumerate(letters):
        following, after = (*letters[index + 1 : index + 3], _NOTHING, _NOTHING)[:2]
        kept = "".join(mark for mark in marks if mark != TASHDID)
        if letter == "آ" or (letter in _ALEFS and index > 0):
            kept = kept.translate(dict.fromkeys(map(ord, (FATHA, ZAMMA, KASRA))))
        if following[0] and following[0] in _ALEFS:
            kept = kept.replace(FATHA, "")
        if following[0] == "ؤ" or (following == ("و", "") and after[0] != "ا"):
            kept = kept.replace(ZAMMA, "")
        if following == ("ی", "") and after[0] == "ا":
            kept = kept.replace(KASRA, "")
        spelt.append((letter, TASHDID + kept if TASHDID in marks else kept))
    return spelt


def _with_one_ezafe(letters: Letters) -> Letters:
    """Many words ending in -ay, -uy and -e are read with an unwritten ezafe."""
    *start, (last, marks) = letters
    if marks != KASRA:
        return letters
    if last == "ی" and _ends_in_e(_joined([*start, (last, "")])):
        return [*start, (last, "")]
    if last == "ه" and _ends_in_e(_bare(letters)):
        return [*start, (last, HAMZA_ABOVE)]
    return letters


def _with_silent_he(letters: Letters) -> Letters:
    """A final he that stands for e: after signs espeak-ng pronounces it as h, or not at all."""
    if len(letters) < 2:
        return letters
    *start, (letter, marks), (last, last_marks) = letters
    is_silent = (
        last == "ه"
        and last_marks in ("", HAMZA_ABOVE)
        and marks.strip(TASHDID) in ("", KASRA)
        and _ends_in_e(_bare(letters))
    )
    if not is_silent or _ends_in_e(_joined([*start, (letter, marks), (last, "")])):
        return letters
    said = (letter, marks.replace(KASRA, "") + KASRA)
    if letter == "و":
        return [*start, said, (last, last_marks)]
    return [*start, said, ("ی", KASRA)] if last_marks else [*start, said]


def _joined(letters: Letters) -> str:
    return "".join(letter + marks for letter, marks in letters)


def _bare(letters: Letters) -> str:
    return "".join(letter for letter, _ in letters)


def _ends_in_e(word: str) -> bool:
    return espeak.phonemes(word, "fa").rstrip("ː").endswith("e")
