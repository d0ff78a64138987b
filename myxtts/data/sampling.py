"""Stratified sampling: random batches with nearly the same number of tokens.

The clips of a shape are sorted by text length and cut into as many strata as a batch has rows. Each
row of a batch is drawn from its own stratum, so the token count of a batch, and of each share of
it, has a bound close to its mean: that bound is the number of slots that texts are packed into.
With sampling weights, strata have equal weight instead of equal size, and each clip is drawn in
proportion to its weight.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from myxtts.data.balance import Weights
from myxtts.data.lengths import IntArray

# Halves whose frame counts differ by less than this fraction are left as they are.
_EVEN_ENOUGH = 0.005
_MOST_SWAPS = 4
# Number of best swaps to try until the texts fit.
_SWAPS_TRIED = 12
# A clip this close to the edge of a stratum counts for both sides, so that rounding never draws a
# clip from a stratum it was not counted in.
_EDGE = 1e-9


def by_text_length(clips: IntArray, token_counts: IntArray) -> IntArray:
    return clips[np.argsort(token_counts[clips], kind="stable")]


def strata_by_row(
    clips: IntArray, token_counts: IntArray, batch: int, weights: Weights | None = None
) -> list[IntArray]:
    """For each row of a batch, the clips it is drawn from; every clip is in at least one stratum.

    Strata have equal size, or equal weight with weights. With fewer clips than rows some clips are
    in several strata, and with weights so are clips on the edge between two.
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

    `ordered` are the clips by text length, `weights` their weights. Each clip is repeated in
    proportion to its weight; every `count` consecutive copies are one stratum.
    """
    count, batch = shape
    drawn = np.repeat(ordered, split_by_weight(weights, count * batch, offset))
    rows = generator.permuted(drawn.reshape(batch, count), axis=1)
    return rows[balanced_order(batch)].T


def split_by_weight(weights: Weights, total: int, offset: float) -> npt.NDArray[np.int64]:
    """Splits `total` into integers, each proportional to its weight and rounded down or up.

    Averaged over all offsets from 0 to 1, each part is exactly proportional.
    """
    marks = np.floor(_reached(weights) * total + offset).clip(max=total)
    return np.diff(marks, prepend=0).astype(np.int64)


def _reached(weights: Weights) -> Weights:
    """Cumulative weight as a fraction of the total."""
    sums = np.cumsum(weights)
    return sums / sums[-1]


def balanced_order(count: int) -> list[int]:
    """0 to count - 1, ordered so that halves have nearly the same sum, recursively.

    A batch is split among replicas into equal parts of this order, so its rows and their order do
    not depend on the number of replicas.
    """
    return _halved(list(range(count)))


def _halved(places: list[int]) -> list[int]:
    if len(places) < 3:
        return places
    # Of every four, the first and the last go to one half, the middle two to the other.
    first = [place for index, place in enumerate(places) if index % 4 in (0, 3)]
    second = [place for index, place in enumerate(places) if index % 4 in (1, 2)]
    while len(first) > len(places) // 2:
        second.append(first.pop())
    return _halved(first) + _halved(sorted(second))


def slots_of_share(strata: list[IntArray], token_counts: IntArray, shares: int) -> int:
    """Maximum number of tokens in a share of a batch, whatever is drawn from the strata."""
    longest = np.array([token_counts[stratum].max() for stratum in strata])
    return int(longest.reshape(shares, -1).sum(axis=1).max())


def room_of_shares(strata: list[IntArray], token_counts: IntArray) -> dict[int, int]:
    """Slots per share, for every number of shares a batch can be split into."""
    rows = len(strata)
    return {
        shares: slots_of_share(strata, token_counts, shares)
        for shares in range(2, rows + 1)
        if rows % shares == 0
    }


def evened_out(
    clips: IntArray, frame_counts: IntArray, token_counts: IntArray, room: dict[int, int]
) -> IntArray:
    """Reorders the clips of a batch so that halves, and quarters, have similar frame counts.

    Rows are swapped only if the texts of every share still fit its slots, for every number of
    shares, so the order does not depend on that number.
    """
    order = clips.copy()

    def texts_fit() -> bool:
        tokens = token_counts[order]
        return all(
            tokens.reshape(shares, -1).sum(axis=1).max() <= slots for shares, slots in room.items()
        )

    def swap_rows(start: int, middle: int, end: int) -> bool:
        """Swaps two rows to make the halves more equal; returns whether it did."""
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
