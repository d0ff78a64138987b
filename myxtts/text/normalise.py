"""Turn written text into the words a reader would say, by the rules of its language."""

from __future__ import annotations

import unicodedata

from myxtts.text.languages import find_language

__all__ = ["normalise"]


def normalise(text: str, language: str, *, keep_vowel_signs: bool = False) -> str:
    """Return the spoken form of text in the given language, such as "en", "en-us" or "fa".

    Persian vowel signs tell espeak-ng how to read a word; without them a word has one spelling.
    """
    entry = find_language(language)
    step = entry.normalise
    if keep_vowel_signs and entry.normalise_for_phonemes is not None:
        step = entry.normalise_for_phonemes
    return step(text) or _bare_letters(text)


def _bare_letters(text: str) -> str:
    return "".join(filter(str.isalpha, unicodedata.normalize("NFC", text)))
