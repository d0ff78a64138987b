"""Words of the lines that are shown."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """The noun as it stands after the number."""
    if count == 1:
        return noun
    return noun + ("es" if noun.endswith("tch") else "s")
