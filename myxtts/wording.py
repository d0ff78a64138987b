"""Wording of messages, and text that is safe to show."""

from __future__ import annotations

import re

# All but tabs and line ends; and the two that turn the direction of what follows.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e]")


def plural(count: int, noun: str) -> str:
    """The noun in singular or plural."""
    if count == 1:
        return noun
    return noun + ("es" if noun.endswith("tch") else "s")


def printable(text: str) -> str:
    """Text of any origin for a terminal: control characters become escapes such as \\x1b."""
    return _CONTROL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
