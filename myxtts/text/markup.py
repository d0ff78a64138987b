"""What a text may contain besides words: `[pause 0.5]` and `[[IPA]]`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from myxtts.errors import DataError

LONGEST_PAUSE_SECONDS = 60.0
PRONUNCIATION = re.compile(r"\[\[([^\[\]]*)\]\]")

_PAUSE = re.compile(r"\[\s*pause\b([^\]\n]*)\]", re.IGNORECASE)
_SECONDS = re.compile(r"\s+(\d{1,4})(?:[.,٫](\d+))?\s*(ms|s|)\s*", re.IGNORECASE)


def split_at_pauses(text: str) -> Iterator[tuple[str, float | None]]:
    """Stretches of text, each with the seconds of the pause after it; None at the end."""
    start = 0
    for match in _PAUSE.finditer(text):
        yield text[start : match.start()], _seconds(match)
        start = match.end()
    yield text[start:], None


def split_at_pronunciations(text: str) -> Iterator[tuple[str, bool]]:
    """Stretches of words, and of IPA (True)."""
    for index, part in enumerate(PRONUNCIATION.split(text)):
        if part.strip():
            yield part, index % 2 == 1


def without_pronunciations(text: str) -> str:
    """As a reader sees it."""
    return " ".join(PRONUNCIATION.sub(r"\1", text).split())


def _seconds(match: re.Match[str]) -> float:
    number = _SECONDS.fullmatch(match[1])
    seconds = 0.0 if number is None else float(f"{number[1]}.{number[2] or 0}")
    if number is not None and number[3].lower() == "ms":
        seconds /= 1_000
    if number is None or seconds > LONGEST_PAUSE_SECONDS:
        raise DataError(
            f"{match.group()[:60]}: expected seconds from 0 to {LONGEST_PAUSE_SECONDS:g}, such as "
            "[pause 0.5]"
        )
    return seconds
