"""Splits long text into sentences, because models are trained on sentences."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from myxtts.text.markup import PRONUNCIATION, any_of

# A text may quote another language, so every language uses all marks.
TERMINATORS = ".!?؟…。"
# Shared by all languages in Latin script.
ABBREVIATIONS = (
    "Mr", "Mrs", "Ms", "Dr", "Prof", "vs", "Fig", "Vol", "pp", "cf", "ca", "Gen", "Col", "Capt",
    "Lt", "Sgt", "Rev", "Hon", "Sen", "Gov", "Mt", "Ft", "approx", "e.g", "i.e",
)  # fmt: skip
# These may also end a sentence; then a capital letter or another script follows.
ABBREVIATIONS_AT_ENDS = (
    "Jr", "Sr", "etc", "Inc", "Ltd", "Co", "Corp", "a.m", "p.m", "al", "Ave", "Rd", "Blvd",
    "Dept", "dept", "temp",
)  # fmt: skip
# These are abbreviations before a number alone: "Sat. 3 May", but "He sat. Three men came."
ABBREVIATIONS_BEFORE_NUMBERS = (
    "No", "Nos", "no", "Est", "est", "Jan", "Feb", "Mar", "Apr", "Jun", "Jul", "Aug", "Sep", "Sept",
    "Oct", "Nov", "Dec", "Mon", "Tue", "Tues", "Wed", "Thu", "Thur", "Thurs", "Fri", "Sat", "Sun",
)  # fmt: skip
UNITS_AFTER_NUMBERS = ("ft", "in", "yd", "mi", "oz", "lb", "lbs", "min", "sec", "hr", "hrs")
_CLOSING = "\"'”’»›)\\]}"
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_ABBREVIATION_AT_END = re.compile(rf"\b(?:{any_of(ABBREVIATIONS_AT_ENDS)})\.$")
_BEFORE_NUMBER = re.compile(rf"\b(?:{any_of(ABBREVIATIONS_BEFORE_NUMBERS)})\.$")
_NUMBER_OR_DATE = re.compile(rf"\d|(?:{any_of(ABBREVIATIONS_BEFORE_NUMBERS)})\.$")
_UNIT_AT_END = re.compile(rf"\d\s?(?:{any_of(UNITS_AFTER_NUMBERS)})\.$")
# Initials, U.S., Ph.D., ق.م. and St., which is a saint before a name and a street after one.
_DOTTED_LETTERS = re.compile(r"(?:(?<![\w.°])(?:[^\W\d_]\.)+|\bPh\.D\.|\bSt\.)$")
# Shorter lines are verses, titles or list items.
_FULL_LINE_CHARACTERS = 60
_WRAPPED = ""
_CLAUSE_END = re.compile(r"[,;:،؛—–)\]»”](?=\s)|\s[-—–](?=\s)")


class SplitSentence(NamedTuple):
    text: str
    break_after: str
    """White space after the sentence; empty at the end of the text."""


@dataclass(frozen=True)
class SentenceRules:
    terminators: str = TERMINATORS
    """Marks that end a sentence before white space and belong to it, with quotation marks and
    brackets that close after them. A line break ends one too."""
    abbreviations: tuple[str, ...] = ABBREVIATIONS
    """Words whose dot does not end a sentence, like that of a number in a list."""
    starts: tuple[str, ...] = ()
    """Words that begin a sentence even after letters with dots: "the U.S. Army", but "from the U.S.
    She came"."""
    after_quotations: tuple[str, ...] = ()
    """Words that continue the sentence after a quotation, where no lower case shows it."""

    def split(self, text: str) -> list[str]:
        return [sentence.text for sentence in self.split_with_breaks(text)]

    def split_with_breaks(self, text: str) -> list[SplitSentence]:
        sentences: list[SplitSentence] = []
        for piece in self._pieces(text):
            if sentences and self._continues(sentences[-1], piece.text):
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
        """Return the break after a line; a full line without a final mark was only wrapped."""
        line_start = text.rfind("\n", 0, match.start()) + 1
        is_full = match.start() - line_start >= _FULL_LINE_CHARACTERS
        is_wrapped = is_full and match.group().count("\n") == 1
        ends = f"{self.terminators}:{_CLOSING}"
        return _WRAPPED if is_wrapped and text[match.start() - 1] not in ends else match.group()

    def _continues(self, before: SplitSentence, following: str) -> bool:
        """Return whether a sentence continues after what looks like its end."""
        if before.break_after == _WRAPPED:
            return True
        if "\n" in before.break_after:
            return False
        if self._abbreviation.search(before.text):
            return True
        is_lower = following[0].islower()
        if _ABBREVIATION_AT_END.search(before.text):
            return is_lower
        if _DOTTED_LETTERS.search(before.text):
            return not self._start.match(following)
        if _UNIT_AT_END.search(before.text):
            return is_lower or following[0].isdecimal()
        if _BEFORE_NUMBER.search(before.text):
            return _NUMBER_OR_DATE.match(following) is not None
        if before.text[-1] in _BRACKETS:
            # Is it (really?) true? (But this is a sentence of its own.)
            is_within = before.text.rfind(_BRACKETS[before.text[-1]]) > 0
            return is_within and not following[0].isupper()
        # "Stop!" he said.
        is_quotation = before.text[-1] in _CLOSING
        return is_quotation and (is_lower or self._continues_after_quotation(following))

    def _continues_after_quotation(self, following: str) -> bool:
        return following.split()[0].rstrip(".،:!؟") in self.after_quotations

    @functools.cached_property
    def _boundary(self) -> re.Pattern[str]:
        ends = rf"[{re.escape(self.terminators)}]"
        # A lookbehind has a fixed width: up to two marks may close after the terminator.
        after = "|".join(rf"(?<={ends}{f'[{_CLOSING}]' * marks})" for marks in range(3))
        return re.compile(rf"(?:{after})\s+|\s*\n\s*")

    @functools.cached_property
    def _abbreviation(self) -> re.Pattern[str]:
        return re.compile(rf"(?:\b(?:{any_of(self.abbreviations)})|^\d{{1,3}})\.$")

    @functools.cached_property
    def _start(self) -> re.Pattern[str]:
        """Matches nothing if there are no such words."""
        words = rf"[\"'“‘(\[]*(?:{any_of(self.starts)})\b(?!\.)"
        return re.compile(words if self.starts else r"(?!)")


def shorter_parts(sentence: str, max_characters: int) -> list[str]:
    """Cut a sentence that is too long, after a clause if there is one, else between words."""
    parts: list[str] = []
    while len(sentence) > max_characters:
        beginning = sentence[: max_characters + 1]
        clauses = [match.end() for match in _CLAUSE_END.finditer(beginning)]
        # A very short clause would sound isolated.
        late = [end for end in clauses if end > max_characters // 4]
        cut = late[-1] if late else beginning.rfind(" ")
        cut = cut if cut > 0 else max_characters
        # A pronunciation between double brackets stays whole.
        for said in PRONUNCIATION.finditer(sentence):
            if said.start() < cut < said.end():
                cut = said.start() or said.end()
        parts.append(sentence[:cut].strip())
        sentence = sentence[cut:].strip()
    return [*parts, sentence] if sentence else parts
