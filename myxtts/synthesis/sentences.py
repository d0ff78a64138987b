"""Long text to sentences: a model trained on sentences says them best one at a time."""

from __future__ import annotations

import re

# After a closing mark and before white space; the mark stays with its sentence.
_BOUNDARY = re.compile(r"(?<=[.!?؟…。])\s+|\n+")
_ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|No|e\.g|i\.e)|\b[A-Z])\.$")


def split_sentences(text: str) -> list[str]:
    sentences: list[str] = []
    for part in _BOUNDARY.split(text):
        piece = part.strip()
        if not piece:
            continue
        if sentences and _ABBREVIATION.search(sentences[-1]):
            sentences[-1] += f" {piece}"
        else:
            sentences.append(piece)
    return sentences
