"""Splits long text into sentences, because models are trained on sentences."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

# A text may quote another language, so every language has the marks of all of them.
TERMINATORS = ".!?؟…。"
# Shared by all languages in Latin script.
ABBREVIATIONS = (
    "Mr", "Mrs", "Ms", "Dr", "Prof", "St", "vs", "No", "Nos", "Fig", "Vol", "pp", "cf", "ca",
    "Gen", "Col", "Capt", "Lt", "Sgt", "Rev", "Hon", "Mt", "approx", "e.g", "i.e",
)  # fmt: skip
# These may also end a sentence; then a capital letter or another script follows.
ABBREVIATIONS_AT_ENDS = ("Jr", "Sr", "etc", "Inc", "Ltd", "Co", "Corp", "a.m", "p.m", "U.S", "al")
_CLOSING = "\"'”’»›)\\]}"
# Shorter lines are verses, titles or items of a list.
_FULL_LINE_CHARACTERS = 60
_WRAPPED = ""
_CLAUSE_END = re.compile(r"[,;:،؛—–)\]»”](?=\s)|\s[-—–](?=\s)")


class SplitSentence(NamedTuple):
    text: str
    break_after: str
    """The white space that follows it, none at the end of the text."""


@dataclass(frozen=True)
class SentenceRules:
    terminators: str = TERMINATORS
    """Marks that end a sentence before white space and belong to it, with quotation marks and
    brackets that close after them. A line break ends one too."""
    abbreviations: tuple[str, ...] = ABBREVIATIONS
    """Words whose dot does not end a sentence, like that of an initial or of a number in a list."""

    def split(self, text: str) -> list[str]:
        return [sentence.text for sentence in self.split_with_breaks(text)]

    def split_with_breaks(self, text: str) -> list[SplitSentence]:
        sentences: list[SplitSentence] = []
        for piece in self._pieces(text):
            if sentences and self._goes_on(sentences[-1], piece.text):
                joined = f"{sentences.pop().text} {piece.text}"
                sentences.append(SplitSentence(joined, piece.break_after))
            else:
                sentences.append(piece)
        return sentences

    def _pieces(self, text: str) -> Iterator[SplitSentence]:
        start = 0
        for match in self._boundary.finditer(text):
            piece = text[start : match.start()].strip()
            start = match.end()
            if piece:
                yield SplitSentence(piece, self._break(text, match))
        if rest := text[start:].strip():
            yield SplitSentence(rest, "")

    def _break(self, text: str, match: re.Match[str]) -> str:
        """A line that is full and ends in no mark was only wrapped: its end is a space."""
        line_start = text.rfind("\n", 0, match.start()) + 1
        is_full = match.start() - line_start >= _FULL_LINE_CHARACTERS
        is_wrapped = is_full and match.group().count("\n") == 1
        ends = f"{self.terminators}:{_CLOSING}"
        return _WRAPPED if is_wrapped and text[match.start() - 1] not in ends else match.group()

    def _goes_on(self, before: SplitSentence, following: str) -> bool:
        """Whether what looks like the end of a sentence is none."""
        if before.break_after == _WRAPPED:
            return True
        if "\n" in before.break_after:
            return False
        if self._abbreviation.search(before.text):
            return True
        is_lower = following[0].islower()
        if is_lower and self._abbreviation_at_end.search(before.text):
            return True
        # "Stop!" he said.
        return is_lower and before.text[-1] in _CLOSING and before.text[-1] not in ")]}"

    @functools.cached_property
    def _boundary(self) -> re.Pattern[str]:
        ends = rf"[{re.escape(self.terminators)}]"
        # A lookbehind has a fixed width: up to two marks may close after the terminator.
        after = "|".join(rf"(?<={ends}{f'[{_CLOSING}]' * marks})" for marks in range(3))
        return re.compile(rf"(?:{after})\s+|\s*\n\s*")

    @functools.cached_property
    def _abbreviation(self) -> re.Pattern[str]:
        words = "|".join(map(re.escape, self.abbreviations))
        return re.compile(rf"(?:\b(?:{words})|(?<![\w.])[^\W\d_]|^[0-9۰-۹]{{1,3}})\.$")

    @functools.cached_property
    def _abbreviation_at_end(self) -> re.Pattern[str]:
        words = "|".join(map(re.escape, ABBREVIATIONS_AT_ENDS))
        return re.compile(rf"\b(?:{words})\.$")


def shorter_parts(sentence: str, most_characters: int) -> list[str]:
    """Cuts a sentence that is too long, after a clause if there is one, else between words."""
    parts: list[str] = []
    while len(sentence) > most_characters:
        beginning = sentence[: most_characters + 1]
        clauses = [match.end() for match in _CLAUSE_END.finditer(beginning)]
        # A clause that is very short would be spoken by itself.
        late = [end for end in clauses if end > most_characters // 4]
        cut = late[-1] if late else beginning.rfind(" ")
        cut = cut if cut > 0 else most_characters
        parts.append(sentence[:cut].strip())
        sentence = sentence[cut:].strip()
    return [*parts, sentence] if sentence else parts
