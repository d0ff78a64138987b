"""Splits long text into sentences, because models are trained on sentences."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

# A text may quote another language, so every language has the marks of all of them.
TERMINATORS = ".!?؟…。"
# Shared by all languages in Latin script.
ABBREVIATIONS = (
    "Mr", "Mrs", "Ms", "Dr", "Prof", "St", "Jr", "Sr", "vs", "etc", "No", "e.g", "i.e",
)  # fmt: skip


@dataclass(frozen=True)
class SentenceRules:
    terminators: str = TERMINATORS
    """Marks that end a sentence before white space and belong to it. A line break ends one too."""
    abbreviations: tuple[str, ...] = ABBREVIATIONS
    """Words whose dot does not end a sentence, like that of an initial."""

    def split(self, text: str) -> list[str]:
        sentences: list[str] = []
        for part in self._boundary.split(text):
            piece = part.strip()
            if not piece:
                continue
            if sentences and self._abbreviation.search(sentences[-1]):
                sentences[-1] += f" {piece}"
            else:
                sentences.append(piece)
        return sentences

    @functools.cached_property
    def _boundary(self) -> re.Pattern[str]:
        return re.compile(rf"(?<=[{re.escape(self.terminators)}])\s+|\n+")

    @functools.cached_property
    def _abbreviation(self) -> re.Pattern[str]:
        words = "|".join(map(re.escape, self.abbreviations))
        return re.compile(rf"(?:\b(?:{words})|\b[A-Z])\.$")
