"""Markup: `[pause 0.5]`, `[[IPA]]` and lexicon files."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from myxtts.errors import DataError

MAX_PAUSE_SECONDS = 60.0
PRONUNCIATION = re.compile(r"\[\[([^\[\]]*)\]\]")

_PAUSE = re.compile(r"\[\s*pause\b([^\]\n]*)\]", re.IGNORECASE)
_SECONDS = re.compile(r"\s+(\d{1,4})(?:[.,٫](\d+))?\s*(ms|s|)\s*", re.IGNORECASE)


def any_of(words: Iterable[str]) -> str:
    """Return a pattern for any of the words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def split_at_pauses(text: str) -> Iterator[tuple[str, float | None]]:
    """Yield spans of text, each with the seconds of the pause after it; None at the end."""
    start = 0
    for match in _PAUSE.finditer(text):
        yield text[start : match.start()], _seconds(match)
        start = match.end()
    yield text[start:], None


def split_at_pronunciations(text: str) -> Iterator[tuple[str, bool]]:
    """Yield spans of words, and of IPA (True)."""
    for index, part in enumerate(PRONUNCIATION.split(text)):
        if part.strip():
            yield part, index % 2 == 1


def without_pronunciations(text: str) -> str:
    """Return the text without pronunciations."""
    return " ".join(PRONUNCIATION.sub(r"\1", text).split())


def _seconds(match: re.Match[str]) -> float:
    number = _SECONDS.fullmatch(match[1])
    seconds = 0.0 if number is None else float(f"{number[1]}.{number[2] or 0}")
    if number is not None and number[3].lower() == "ms":
        seconds /= 1_000
    if number is None or seconds > MAX_PAUSE_SECONDS:
        raise DataError(
            f"{match.group()[:60]}: expected seconds from 0 to {MAX_PAUSE_SECONDS:g}, such as "
            "[pause 0.5]"
        )
    return seconds


_SEPARATOR = re.compile(r"\t|\|")


@dataclass(frozen=True)
class Lexicon:
    """A file of pronunciations, with a word and its reading on each line.

        Nguyen<TAB>/wˈɪn/
        SQL<TAB>sequel

    IPA is written between slashes; anything else is a respelling. Lines that begin with # are
    comments.
    """

    sayings: dict[str, str]
    """Pronunciations by word; a lower-case entry matches every case."""

    @classmethod
    def read(cls, file: str | Path) -> Lexicon:
        sayings: dict[str, str] = {}
        for number, line in enumerate(read_text(Path(file)).splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            word, *rest = (part.strip() for part in _SEPARATOR.split(line))
            if len(rest) != 1 or not word or not rest[0]:
                raise DataError(
                    f"{file}: line {number}: found {line[:60]!r}, expected a word, a tab or |, "
                    "and its reading"
                )
            sayings[word] = _as_markup(rest[0])
        if not sayings:
            raise DataError(f"{file}: has no entries, expected a word and its reading per line")
        return cls(sayings)

    def apply(self, text: str) -> str:
        """Replace words by their readings; IPA between double brackets is not changed."""

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


_MAX_FILE_BYTES = 1 << 24


def read_text(file: Path) -> str:
    """Read UTF-8, with or without a byte-order mark."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from None
    return _decoded(content, str(file))


def read_standard_input() -> str:
    name = "standard input"
    content = sys.stdin.buffer.read(_MAX_FILE_BYTES + 1)
    if len(content) > _MAX_FILE_BYTES:
        raise DataError(f"{name}: more than {_MAX_FILE_BYTES} bytes; split it into parts")
    return _decoded(content, name)


def _decoded(content: bytes, where: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{where}: line {line} is not UTF-8 text; save it as UTF-8") from None
    if "\0" in text:
        raise DataError(f"{where}: is not text (it contains zero bytes)")
    return text
