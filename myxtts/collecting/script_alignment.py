"""Takes the texts of clips from a script: what was recognised only tells where in it a clip is.

Runs of three words that occur once in what was recognised and once in the script hold the two
together, as far as they are in the same order. Between these, words are aligned by edit distance.
Words of the script that nobody may have read are left out at the edges of a clip; a clip that
differs from the script in too many words is not given its text.
"""

from __future__ import annotations

import bisect
import difflib
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from myxtts.evaluation.recogniser import bare_words

_ANCHOR_WORDS = 3
# A gap without an anchor that is larger is not aligned: its clips are not found in the script.
_MOST_CELLS = 4_000_000
_INSERTED, _LEFT_OUT = 0.8, 0.8
# Words that share fewer letters are not two spellings or hearings of one.
_LEAST_ALIKE = 0.5
_DIFFERENT = 1.5


@dataclass(frozen=True)
class Script:
    """The words of a text as they are spoken, each with its place in the text."""

    tokens: list[str]
    """As they are written, with their punctuation."""
    words: list[str]
    token_of_word: list[int]

    @staticmethod
    def read(text: str, language: str) -> Script:
        spoken = functools.lru_cache(maxsize=None)(lambda token: bare_words(token, language))
        tokens, words, places = text.split(), [], []
        for place, token in enumerate(tokens):
            for word in spoken(token).split():
                words.append(word)
                places.append(place)
        return Script(tokens, words, places)

    def text(self, first: int, last: int) -> str:
        """From one word to another, with what stands around them."""
        start, end = self.token_of_word[first], self.token_of_word[last] + 1
        # A dash or a quotation mark by itself belongs to what is before it.
        while end < len(self.tokens) and not any(map(str.isalnum, self.tokens[end])):
            end += 1
        return " ".join(self.tokens[start:end])


@dataclass(frozen=True)
class Place:
    """A clip in the script."""

    text: str
    agreement: float
    """Share of the words on which the recogniser and the script agree."""
    certain_edges: bool
    """False: the script has words just before or after that are in no clip."""


def find_in_script(clips: Sequence[Sequence[str]], script: Script) -> list[Place | None]:
    """`clips` are the recognised words of each clip of a recording, in order."""
    heard = [word for words in clips for word in words]
    match = _align(heard, script.words)
    places: list[Place | None] = []
    start = 0
    taken = sorted(index for index in match if index is not None)
    for words in clips:
        aligned = [index for index in match[start : start + len(words)] if index is not None]
        start += len(words)
        places.append(_place(words, aligned, script, taken) if aligned else None)
    return places


def _place(
    words: Sequence[str], aligned: Sequence[int], script: Script, taken: Sequence[int]
) -> Place:
    first, last = aligned[0], aligned[-1]
    spoken = script.words[first : last + 1]
    matcher = difflib.SequenceMatcher(None, list(words), spoken, autojunk=False)
    before = bisect.bisect_left(taken, first)
    after = bisect.bisect_right(taken, last)
    # At the ends of what was read there is nothing to compare with.
    joins_before = before == 0 or taken[before - 1] == first - 1
    joins_after = after == len(taken) or taken[after] == last + 1
    return Place(script.text(first, last), matcher.ratio(), joins_before and joins_after)


def _align(heard: Sequence[str], script: Sequence[str]) -> list[int | None]:
    """For each recognised word the word of the script, in order."""
    match: list[int | None] = [None] * len(heard)
    anchors = _anchors(heard, script)
    for at, to in anchors:
        match[at] = to
    for (left, script_left), (right, script_right) in itertools.pairwise(anchors):
        _fill(match, heard, script, (left + 1, right), (script_left + 1, script_right))
    if anchors:
        # Before the first anchor and after the last one: about as many words as were recognised.
        first, to_first = anchors[0]
        reach = max(0, to_first - 2 * first)
        _fill(match, heard, script, (0, first), (reach, to_first))
        last, to_last = anchors[-1]
        end = min(len(script), to_last + 1 + 2 * (len(heard) - last))
        _fill(match, heard, script, (last + 1, len(heard)), (to_last + 1, end))
    elif len(heard) * len(script) <= _MOST_CELLS:
        _fill(match, heard, script, (0, len(heard)), (0, len(script)))
    return match


def _anchors(heard: Sequence[str], script: Sequence[str]) -> list[tuple[int, int]]:
    """Words whose surroundings are unique in both, in the same order in both."""
    ours, theirs = _unique_runs(heard), _unique_runs(script)
    pairs = sorted((at, theirs[run]) for run, at in ours.items() if run in theirs)
    return _longest_increasing(pairs)


def _unique_runs(words: Sequence[str]) -> dict[tuple[str, ...], int]:
    places: dict[tuple[str, ...], int] = {}
    repeated = set()
    for at in range(len(words) - _ANCHOR_WORDS + 1):
        run = tuple(words[at : at + _ANCHOR_WORDS])
        if run in places:
            repeated.add(run)
        places[run] = at
    return {run: at for run, at in places.items() if run not in repeated}


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    tails: list[int] = []
    at_tail: list[int] = []
    before: list[int | None] = []
    for index, (_, to) in enumerate(pairs):
        place = bisect.bisect_left(tails, to)
        before.append(at_tail[place - 1] if place else None)
        tails[place : place + 1] = [to]
        at_tail[place : place + 1] = [index]
    chain: list[tuple[int, int]] = []
    at = at_tail[-1] if at_tail else None
    while at is not None:
        chain.append(pairs[at])
        at = before[at]
    return chain[::-1]


def _fill(
    match: list[int | None],
    heard: Sequence[str],
    script: Sequence[str],
    ours: tuple[int, int],
    theirs: tuple[int, int],
) -> None:
    """Aligns the words of a gap by edit distance."""
    rows, columns = ours[1] - ours[0], theirs[1] - theirs[0]
    if rows <= 0 or columns <= 0 or rows * columns > _MOST_CELLS:
        return
    left, right = heard[ours[0] : ours[1]], script[theirs[0] : theirs[1]]
    cost = [[column * _LEFT_OUT for column in range(columns + 1)]]
    for row, word in enumerate(left, 1):
        line = [row * _INSERTED]
        above = cost[-1]
        for column, other in enumerate(right, 1):
            line.append(
                min(
                    above[column - 1] + _difference(word, other),
                    above[column] + _INSERTED,
                    line[column - 1] + _LEFT_OUT,
                )
            )
        cost.append(line)
    row, column = rows, columns
    while row and column:
        here = cost[row][column]
        if here == cost[row - 1][column] + _INSERTED:
            row -= 1
        elif here == cost[row][column - 1] + _LEFT_OUT:
            column -= 1
        else:
            row, column = row - 1, column - 1
            match[ours[0] + row] = theirs[0] + column


@functools.lru_cache(maxsize=100_000)
def _difference(word: str, other: str) -> float:
    """0 for the same word, up to 1 for one that may be a mishearing of the other."""
    if word == other:
        return 0.0
    alike = difflib.SequenceMatcher(None, word, other, autojunk=False).ratio()
    return 1.0 - alike if alike >= _LEAST_ALIKE else _DIFFERENT
