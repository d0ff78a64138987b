"""Errors that MyXTTS raises on purpose, and the wording of messages.

A message is one line: what was found, where, what was expected and what to do.
The command line prints exactly that line and exits with code 2.
"""

from __future__ import annotations

import re

_MAX_LINE = 1_000
_MAX_QUOTED = 80
# Joiners that Persian and other scripts use, and that terminals show.
_JOINERS = "\u200c\u200d"
# Control characters except tabs and line ends, and two direction overrides.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e]")


class MyXTTSError(Exception):
    """Anything the user can fix. Only `myxtts.cli` catches it."""

    def __str__(self) -> str:
        """Return one line of limited length, even if the message quotes a file."""
        line = printable(" ".join(super().__str__().splitlines()))
        return line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}..."


class ConfigError(MyXTTSError):
    """A setting is unknown, has the wrong type, is out of range or contradicts another."""


class DataError(MyXTTSError):
    """A corpus, an audio file or a text cannot be used as it is."""


class DeviceError(MyXTTSError):
    """A requested device does not exist or cannot be used as requested."""


class CheckpointError(MyXTTSError):
    """A run or checkpoint folder is missing, incomplete, corrupt or incompatible."""


class NonFiniteLossError(MyXTTSError):
    """Training hit NaN or infinity and could not recover."""


def printable(text: str) -> str:
    """Escape control characters as in JSON."""

    def escape(match: re.Match[str]) -> str:
        code = ord(match[0])
        return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}"

    return _CONTROL.sub(escape, text)


def quoted(text: str) -> str:
    """Return the beginning of a text in quotation marks, with unprintable characters escaped."""
    shown = "".join(
        character if character.isprintable() or character in _JOINERS else repr(character)[1:-1]
        for character in text[:_MAX_QUOTED]
    )
    return f"'{shown}{'...' if len(text) > _MAX_QUOTED else ''}'"


def plural(count: int, noun: str) -> str:
    if count == 1:
        return noun
    return noun + ("es" if noun.endswith("tch") else "s")


def plural_count(count: int, noun: str) -> str:
    return f"{count:,} {plural(count, noun)}"


def duration(seconds: float) -> str:
    """Format a duration for reading: 40 seconds, 58 minutes, 2.5 hours, 3.1 days."""
    for unit, length, limit in (("second", 1, 90), ("minute", 60, 90 * 60)):
        if seconds < limit:
            return plural_count(max(1, round(seconds / length)), unit)
    return (
        f"{seconds / 3_600:.1f} hours" if seconds < 48 * 3_600 else f"{seconds / 86_400:.1f} days"
    )
