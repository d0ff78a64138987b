"""A text in several languages, cut into parts of one language each, by the script of its words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from myxtts.text.languages import find_language
from myxtts.text.scripts import script_of


class LanguagePart(NamedTuple):
    text: str
    language: str


def language_parts(text: str, main: str, languages: Sequence[str]) -> list[LanguagePart]:
    """Words that are not written in a script of `main` belong to the first of the other languages
    that is written in theirs; numbers and marks belong to what is before them.
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
    """The language of most letters, of parts as from `language_parts`."""
    letters: Counter[str] = Counter()
    for text, language in parts:
        letters[language] += sum(map(str.isalpha, text))
    most = max(letters.values(), default=0)
    return default if letters[default] == most else letters.most_common(1)[0][0]


def _language_of(word: str, main: str, languages: Sequence[str]) -> str | None:
    """None for a word without letters."""
    scripts = Counter(script_of(character) for character in word if character.isalpha())
    if not scripts:
        return None
    [(script, _)] = scripts.most_common(1)
    if script in find_language(main).scripts:
        return main
    return next((one for one in languages if script in find_language(one).scripts), main)
