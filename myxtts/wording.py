"""Wording of messages, and text that is safe to show."""

from __future__ import annotations

import re
from pathlib import Path

# Persian and other scripts write with these, and a terminal shows them.
_JOINERS = "\u200c\u200d"
_SHOWN_CHARACTERS = 80
# All but tabs and line ends; and the two that turn the direction of what follows.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e]")


def quoted(text: str) -> str:
    """The beginning of a text in quotation marks; only what cannot be shown is escaped."""
    shown = "".join(
        character if character.isprintable() or character in _JOINERS else repr(character)[1:-1]
        for character in text[:_SHOWN_CHARACTERS]
    )
    return f"'{shown}{'...' if len(text) > _SHOWN_CHARACTERS else ''}'"


def plural(count: int, noun: str) -> str:
    """The noun in singular or plural."""
    if count == 1:
        return noun
    return noun + ("es" if noun.endswith("tch") else "s")


def plural_count(count: int, noun: str) -> str:
    return f"{count:,} {plural(count, noun)}"


def duration(seconds: float) -> str:
    """As one would say it: 40 seconds, 58 minutes, 2.5 hours, 3.1 days."""
    for unit, length, limit in (("second", 1, 90), ("minute", 60, 90 * 60)):
        if seconds < limit:
            return plural_count(max(1, round(seconds / length)), unit)
    if seconds < 48 * 3_600:
        return f"{seconds / 3_600:.1f} hours"
    return f"{seconds / 86_400:.1f} days"


def is_text(name: Path | str) -> bool:
    """Whether a name is valid text; one in another encoding is not."""
    try:
        str(name).encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str) -> str:
    """Text of any origin for a terminal: control characters become escapes such as \\x1b."""
    return _CONTROL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    """JSON, which may hold all but the first 32 as they are, is still JSON afterwards."""
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}"
