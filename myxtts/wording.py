"""Wording of messages."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """The noun in singular or plural."""
    if count == 1:
        return noun
    return noun + ("es" if noun.endswith("tch") else "s")
