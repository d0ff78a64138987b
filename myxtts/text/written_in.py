"""In which script a text is written, and which language that suggests."""

from __future__ import annotations

from collections import Counter

from myxtts.text.languages import REGISTRY, find_language
from myxtts.text.scripts import LATIN, languages_of, script_of


def other_script(text: str, language: str, *, takes_latin: bool = False) -> str | None:
    """The script of most letters, if it is none of the language's.

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
    """A language that is written so: the one with its own rules here, or several to choose from."""
    own = [code for code, language in REGISTRY.items() if script in language.scripts]
    known = own[:1] or languages_of(script)
    return known[0] if len(known) == 1 else f"TAG ({', '.join(known) or 'such as en'})"


def script_name(script: str) -> str:
    return script if script == "CJK" else script.title()
