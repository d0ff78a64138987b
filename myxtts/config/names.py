"""The nearest valid name, for messages about a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing when no valid name is near."""
    near = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""
