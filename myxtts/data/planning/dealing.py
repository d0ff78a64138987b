"""Batches whose texts are equally long in sum, whichever clips chance puts together.

The clips of a shape are sorted by the length of their text and cut into as many strata as a batch
has rows. Each row of a batch is drawn from its own stratum, so the tokens of a batch, and of each
share of it, stay below a bound that hardly exceeds their mean: that is the room in which texts
are packed. Where clips are heard more or less often, strata are of equal weight instead of equal
number, and a row hears each clip of its stratum as often as it weighs.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from myxtts.data.lengths import IntArray
from myxtts.data.planning.balance import Weights

# Halves that differ by less than this share of their frames are left as they are.
_EVEN_ENOUGH = 0.005
_MOST_SWAPS = 4
# Swaps that would help most, tried in turn until the texts fit.
_SWAPS_TRIED = 12
# A clip that ends this close to the edge of a stratum is counted in on both sides: no rounding
# lets it be drawn where it was not counted.
_EDGE = 1e-9


def by_text_length(clips: IntArray, token_counts: IntArray) -> IntArray:
    return clips[np.argsort(token_counts[clips], kind="stable")]


def strata_by_row(
    clips: IntArray, token_counts: IntArray, batch: int, weights: Weights | None = None
) -> list[IntArray]:
    """For each row of a batch, the clips that it is drawn from; every clip is in one of them.

    The strata are equal in number, or in weight where clips have weights. With fewer clips than
    rows, some clips stand in several, and so do those on the edge between two equal weights.
    """
    ordered = by_text_length(clips, token_counts)
    if weights is None:
        edges = np.arange(batch + 1) * clips.size // batch
        strata = [ordered[start : max(end, start + 1)] for start, end in itertools.pairwise(edges)]
    else:
        reached = _reached(weights[ordered])
        borders = np.arange(batch + 1) / batch
        starts = np.searchsorted(reached, borders[:-1] - _EDGE, side="right")
        lasts = np.searchsorted(reached, borders[1:] + _EDGE)
        strata = [ordered[start : last + 1] for start, last in zip(starts, lasts, strict=True)]
    return [strata[row] for row in balanced_order(batch)]


def draw_rows(
    ordered: IntArray,
    weights: Weights,
    shape: tuple[int, int],
    offset: float,
    generator: np.random.Generator,
) -> IntArray:
    """[count, batch]: `count` batches, each row drawn from its stratum of equal weight.

    `ordered` are the clips by length of text, `weights` theirs. Laid end to end in this order the
    copies of the clips are the strata one after the other, `count` of each.
    """
    count, batch = shape
    drawn = np.repeat(ordered, split_by_weight(weights, count * batch, offset))
    rows = generator.permuted(drawn.reshape(batch, count), axis=1)
    return rows[balanced_order(batch)].T


def split_by_weight(weights: Weights, total: int, offset: float) -> npt.NDArray[np.int64]:
    """`total` in whole parts, each its share by weight rounded down or up.

    Over all offsets from 0 to 1 each part is its share on average.
    """
    marks = np.floor(_reached(weights) * total + offset).clip(max=total)
    return np.diff(marks, prepend=0).astype(np.int64)


def _reached(weights: Weights) -> Weights:
    """The share of the whole weight up to and with each."""
    sums = np.cumsum(weights)
    return sums / sums[-1]


def balanced_order(count: int) -> list[int]:
    """0 to count - 1 so that the halves have nearly the same sum, and the halves of the halves.

    A batch that is split among replicas is split into equal parts of this order: its rows are
    the same ones, in the same order, for every number of replicas.
    """
    return _halved(list(range(count)))


def _halved(places: list[int]) -> list[int]:
    if len(places) < 3:
        return places
    # The first and the last of every four to one side, the two between them to the other.
    first = [place for index, place in enumerate(places) if index % 4 in (0, 3)]
    second = [place for index, place in enumerate(places) if index % 4 in (1, 2)]
    while len(first) > len(places) // 2:
        second.append(first.pop())
    return _halved(first) + _halved(sorted(second))


def slots_of_share(strata: list[IntArray], token_counts: IntArray, shares: int) -> int:
    """The most tokens that a share of a batch can have, whatever is drawn from the strata."""
    longest = np.array([token_counts[stratum].max() for stratum in strata])
    return int(longest.reshape(shares, -1).sum(axis=1).max())


def room_of_shares(strata: list[IntArray], token_counts: IntArray) -> dict[int, int]:
    """For every number of shares that a batch can be split among, the slots of each."""
    rows = len(strata)
    return {
        shares: slots_of_share(strata, token_counts, shares)
        for shares in range(2, rows + 1)
        if rows % shares == 0
    }


def evened_out(
    clips: IntArray, frame_counts: IntArray, token_counts: IntArray, room: dict[int, int]
) -> IntArray:
    """The clips of a batch in an order whose halves, and quarters, have equally many frames.

    Rows change places only where the texts of every share still fit their room, whatever the
    number of shares: the order does not depend on it.
    """
    order = clips.copy()

    def texts_fit() -> bool:
        tokens = token_counts[order]
        return all(
            tokens.reshape(shares, -1).sum(axis=1).max() <= slots for shares, slots in room.items()
        )

    def swap_rows(start: int, middle: int, end: int) -> bool:
        """Makes the halves more equal; whether it could."""
        frames = frame_counts[order[start:end]].astype(np.int64)
        first, second = frames[: middle - start], frames[middle - start :]
        excess = first.sum() - second.sum()
        if abs(excess) <= _EVEN_ENOUGH * frames.sum():
            return False
        left = np.abs(excess - 2 * (first[:, None] - second))
        for place in np.argsort(left, axis=None)[:_SWAPS_TRIED]:
            row, other = divmod(int(place), second.size)
            if left[row, other] >= abs(excess):
                break
            pair = [start + row, middle + other]
            order[pair] = order[pair[::-1]]
            if texts_fit():
                return True
            order[pair] = order[pair[::-1]]
        return False

    def even_out(start: int, end: int) -> None:
        middle = (start + end) // 2
        if (end - start) % 2 or middle == start:
            return
        for _ in range(_MOST_SWAPS):
            if not swap_rows(start, middle, end):
                break
        even_out(start, middle)
        even_out(middle, end)

    even_out(0, order.size)
    return order
