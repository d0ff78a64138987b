"""Whether the dot of an English abbreviation also ends its sentence."""

from __future__ import annotations

import re

from myxtts.text.characters import any_of

SENTENCE_STARTS = (
    "The", "This", "That", "These", "Those", "He", "She", "It", "We", "They", "You", "I", "A", "An",
    "And", "But", "So", "Then", "There", "When", "What", "Why", "How", "Where", "If", "In", "On",
    "At", "For", "As", "After", "My", "His", "Her", "Our", "Their", "Yes", "Not", "However", "Now",
    "Let", "Please",
)  # fmt: skip
_SENTENCE_START = re.compile(rf"[\"')\]]*(?:\s*$|\s+[\"'(]*(?:{any_of(SENTENCE_STARTS)})\b)")


def stop_after(match: re.Match[str]) -> str:
    """A full stop when the dot of the matched abbreviation also ends its sentence."""
    ends = match.group().endswith(".") and _SENTENCE_START.match(match.string, match.end())
    return "." if ends else ""
