"""Whether the dot of an English abbreviation also ends its sentence."""

from __future__ import annotations

import re

_SENTENCE_STARTS = re.compile(
    r"[\"')\]]*(?:\s*$|\s+[\"'(]*(?:The|This|That|These|Those|He|She|It|We|They|You|I|An?|And|But"
    r"|So|Then|There|When|What|Why|How|Where|If|In|On|At|For|As|After|My|His|Her|Our|Their"
    r"|Yes|Not|However|Now|Let|Please)\b)"
)


def stop_after(match: re.Match[str]) -> str:
    """A full stop when the dot of the matched abbreviation also ends its sentence."""
    ends = match.group().endswith(".") and _SENTENCE_STARTS.match(match.string, match.end())
    return "." if ends else ""
