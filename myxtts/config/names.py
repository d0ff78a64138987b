"""The nearest valid name, for messages about a misspelt one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing when no valid name is near."""
    near = nearest(name, valid)
    return f"; did you mean '{near}'?" if near else ""


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """A misspelt name first, then what it abbreviates, then what resembles it at all."""
    names = list(valid)
    found = (
        difflib.get_close_matches(name, names, n=1, cutoff=0.8)
        or [full for full in names if _abbreviates(name, full)]
        or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    )
    return found[0] if found else None


def _abbreviates(name: str, full: str) -> bool:
    """lr is learning_rate, and grad_accum is gradient_accumulation_steps."""
    parts, words = re.split("[_-]", name), re.split("[_-]", full)
    if len(words) > 1 and name == "".join(word[:1] for word in words):
        return True
    starts = all(word.startswith(part) for part, word in zip(parts, words, strict=False))
    return len(name) > 2 and len(parts) <= len(words) and starts
