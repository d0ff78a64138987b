"""Stratified sampling of batches, with weights that balance speakers and languages.

The clips of a shape are sorted by text length and cut into as many strata as a batch has rows. Each
row of a batch is drawn from its own stratum, so the token count of a batch, and of each of its
shares, has a bound close to its mean. That bound is the number of slots that texts are packed into.

With balancing, a group of `count` clips is sampled in proportion to count ** (1 - balance): 0
samples clips uniformly, 1 samples groups uniformly. Strata then have equal weight instead of equal
size, and each clip is drawn in proportion to its weight.
"""

from __future__ import annotations

import enum
import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.config.config import DataConfig

IntArray = npt.NDArray[np.int32]
Weights = npt.NDArray[np.float64]

# Halves whose frame counts differ by less than this fraction are left as they are.
_EVEN_ENOUGH = 0.005
_MAX_SWAPS = 4
# Number of best swaps to try until the texts fit.
_SWAPS_TRIED = 12
# A clip this close to the edge of a stratum counts for both sides, so that rounding never draws a
# clip from a stratum it was not counted in.
_EDGE = 1e-9


class Stream(enum.IntEnum):
    """Independent random streams from one seed."""

    ORDER = 0
    REFERENCES = 1
    ROTATION = 2
    AUGMENTATION = 3
    NOISE = 4
    SEGMENTS = 5


def generator_at(seed: int, stream: Stream, number: int = 0) -> np.random.Generator:
    """Return the generator of one number, such as a step, of a stream."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, stream, number])))


class ClipLabels(NamedTuple):
    """Speaker and language number of each clip."""

    speakers: IntArray
    languages: IntArray


def balanced_weights(
    labels: ClipLabels | None, used: npt.NDArray[np.bool_], data: DataConfig
) -> Weights | None:
    """Return a weight per clip: 1 on average over the used clips, 0 for the others.

    None if all weights are equal, or without labels. Languages are balanced after speakers: with
    both balances at 1, every language is sampled equally often, and so is every speaker within a
    language.
    """
    if labels is None or not used.any():
        return None
    weights = np.ones(int(used.sum()))
    for groups, balance in (
        (labels.speakers[used], data.speaker_balance),
        (labels.languages[used], data.language_balance),
    ):
        if balance == 0:
            continue
        totals = np.bincount(groups, weights)
        factors = np.where(totals > 0, totals, 1.0) ** -balance
        weights *= factors[groups]
    if np.allclose(weights, weights[:1], rtol=1e-9, atol=0):
        return None
    everywhere = np.zeros(used.size)
    everywhere[used] = weights / weights.mean()
    return everywhere


def by_text_length(clips: IntArray, token_counts: IntArray) -> IntArray:
    return clips[np.argsort(token_counts[clips], kind="stable")]


def strata_by_row(
    clips: IntArray, token_counts: IntArray, batch: int, weights: Weights | None = None
) -> list[IntArray]:
    """Return, for each row of a batch, the clips it is drawn from; every clip is in a stratum.

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
    """Draw `count` batches, [count, batch], each row from its stratum of equal weight.

    `ordered` are the clips by text length, `weights` their weights. Each clip is repeated in
    proportion to its weight; every `count` consecutive copies are one stratum.
    """
    count, batch = shape
    drawn = np.repeat(ordered, split_by_weight(weights, count * batch, offset))
    rows = generator.permuted(drawn.reshape(batch, count), axis=1)
    return rows[balanced_order(batch)].T


def split_by_weight(weights: Weights, total: int, offset: float) -> npt.NDArray[np.int64]:
    """Split `total` into integers, each proportional to its weight and rounded down or up.

    Averaged over all offsets from 0 to 1, each part is exactly proportional.
    """
    marks = np.floor(_reached(weights) * total + offset).clip(max=total)
    return np.diff(marks, prepend=0).astype(np.int64)


def _reached(weights: Weights) -> Weights:
    """Return the cumulative weight as a fraction of the total."""
    sums = np.cumsum(weights)
    return sums / sums[-1]


def balanced_order(count: int) -> list[int]:
    """Return 0 to count - 1, ordered so that halves have nearly the same sum, recursively.

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
    """Return the maximum number of tokens in a share, whatever is drawn from the strata."""
    longest = np.array([token_counts[stratum].max() for stratum in strata])
    return int(longest.reshape(shares, -1).sum(axis=1).max())


def slots_by_shares(strata: list[IntArray], token_counts: IntArray) -> dict[int, int]:
    """Return the slots per share, for every number of shares a batch can be split into."""
    rows = len(strata)
    return {
        shares: slots_of_share(strata, token_counts, shares)
        for shares in range(2, rows + 1)
        if rows % shares == 0
    }


def balance_halves(
    clips: IntArray, frame_counts: IntArray, token_counts: IntArray, slots_of: dict[int, int]
) -> IntArray:
    """Reorder the clips of a batch so that halves, and quarters, have similar frame counts.

    Rows are swapped only if the texts of every share still fit its slots, for every number of
    shares, so the order does not depend on that number.
    """
    order = clips.copy()

    def texts_fit() -> bool:
        tokens = token_counts[order]
        return all(
            tokens.reshape(shares, -1).sum(axis=1).max() <= slots
            for shares, slots in slots_of.items()
        )

    def swap_rows(start: int, middle: int, end: int) -> bool:
        """Swap two rows to make the halves more equal, and return whether it did."""
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

    def balance(start: int, end: int) -> None:
        middle = (start + end) // 2
        if (end - start) % 2 or middle == start:
            return
        for _ in range(_MAX_SWAPS):
            if not swap_rows(start, middle, end):
                break
        balance(start, middle)
        balance(middle, end)

    balance(0, order.size)
    return order
