"""Batches whose texts are equally long in sum, whichever clips chance puts together.

The clips of a shape are sorted by the length of their text and cut into as many strata as a batch
has rows. Each row of a batch is drawn from its own stratum, so the tokens of a batch, and of each
share of it, stay below a bound that hardly exceeds their mean: that is the room in which texts
are packed.
"""

from __future__ import annotations

import itertools

import numpy as np

from myxtts.data.lengths import IntArray

# Halves that differ by less than this share of their frames are left as they are.
_EVEN_ENOUGH = 0.005
_MOST_SWAPS = 4
# Swaps that would help most, tried in turn until the texts fit.
_SWAPS_TRIED = 12


def strata_by_row(clips: IntArray, token_counts: IntArray, batch: int) -> list[IntArray]:
    """For each row of a batch, the clips that it is drawn from; every clip is in one of them.

    With fewer clips than rows, some clips stand in several.
    """
    ordered = clips[np.argsort(token_counts[clips], kind="stable")]
    edges = np.arange(batch + 1) * clips.size // batch
    strata = [ordered[start : max(end, start + 1)] for start, end in itertools.pairwise(edges)]
    return [strata[row] for row in balanced_order(batch)]


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
