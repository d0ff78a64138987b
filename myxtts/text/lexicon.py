"""Pronunciations of the user: a file with a word and how it is said on each line.

    Nguyen<TAB>/wˈɪn/
    SQL<TAB>sequel
    کی‌یف<TAB>کییف

IPA stands between slashes; anything else is spelt as it is to be read. Lines that begin with # are
comments.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from myxtts.errors import DataError
from myxtts.text.characters import any_of
from myxtts.text.files import read_text
from myxtts.text.markup import split_at_pronunciations

_SEPARATOR = re.compile(r"\t|\|")


@dataclass(frozen=True)
class Lexicon:
    sayings: dict[str, str]
    """By word; one in lower case stands for every case."""

    @classmethod
    def read(cls, file: str | Path) -> Lexicon:
        sayings: dict[str, str] = {}
        for number, line in enumerate(read_text(Path(file)).splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            word, *rest = (part.strip() for part in _SEPARATOR.split(line))
            if len(rest) != 1 or not word or not rest[0]:
                raise DataError(
                    f"{file}: line {number}: found {line[:60]!r}, expected a word, a tab or |, and "
                    "how it is said"
                )
            sayings[word] = _as_markup(rest[0])
        if not sayings:
            raise DataError(f"{file}: has no entries, expected a word and how it is said per line")
        return cls(sayings)

    def apply(self, text: str) -> str:
        """Words replaced by how they are said; IPA as in `text.markup`, which is left as it is."""

        def saying(match: re.Match[str]) -> str:
            word = match.group()
            return self.sayings.get(word) or self.sayings.get(word.lower()) or word

        return "".join(
            f"[[{part}]]" if is_ipa else self._pattern.sub(saying, part)
            for part, is_ipa in split_at_pronunciations(text)
        )

    @functools.cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(rf"(?<!\w)(?:{any_of(self.sayings)})(?!\w)", re.IGNORECASE)


def _as_markup(saying: str) -> str:
    is_ipa = len(saying) > 2 and saying[0] == saying[-1] == "/"
    return f"[[{saying[1:-1]}]]" if is_ipa else saying
