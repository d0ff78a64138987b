"""Finds the shapes with the least padding, by exact dynamic programming.

Shapes are nested: they grow in tokens and frames together, and a clip goes into the first one that
fits. The clips of a shape are then those that fit it minus those that fit the previous one, so the
best sequence ending in a shape follows from the best sequences ending in smaller ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.data.lengths import IntArray

# The search compares all pairs of candidates; with more of them the grid is made coarser.
_MOST_CANDIDATES = 2_500

FloatArray = npt.NDArray[np.float64]
CostOfClip = Callable[[IntArray, IntArray], FloatArray]


class Size(NamedTuple):
    tokens: int
    frames: int
    clips: float
    """Number, or total weight, of the clips that fit this size but no smaller one."""


class _Candidates(NamedTuple):
    """Sizes to consider: each of their two lengths occurs in the corpus."""

    tokens: IntArray
    frames: IntArray
    fitting: FloatArray
    """Number, or total weight, of the clips that fit each size."""


def nested_sizes(
    token_counts: IntArray,
    frame_counts: IntArray,
    cost_of_clip: CostOfClip,
    most: int,
    *,
    multiples: tuple[int, int],
    weights: FloatArray | None = None,
) -> list[list[Size]]:
    """The cheapest sizes for 1, 2, … `most` shapes, as long as another shape reduces the cost.

    `cost_of_clip` maps arrays of padded tokens and frames to the cost of a clip; lengths are
    multiples of `multiples`. `weights` are the weights of the clips.
    """
    candidates = _candidates(token_counts, frame_counts, multiples, weights)
    tokens, frames, fitting = candidates
    cost = cost_of_clip(tokens, frames)
    holds = (tokens[:, None] <= tokens) & (frames[:, None] <= frames)
    # least[c]: minimum cost of all clips that fit candidate c, if c is the largest shape so far.
    least = fitting * cost
    # Cost of adding shape c (column) after p (row), without the part that depends on c only.
    step = np.where(holds, -fitting[:, None] * cost, np.inf)
    predecessors = [np.full(least.size, -1)]
    totals = [least[-1]]
    for _ in range(1, most):
        extended = least[:, None] + step
        best = np.argmin(extended, axis=0)
        least = extended[best, np.arange(least.size)] + fitting * cost
        if not least[-1] < totals[-1]:
            break
        predecessors.append(best)
        totals.append(least[-1])
    return [
        _follow_back(predecessors[: count + 1], candidates) for count in range(len(predecessors))
    ]


def _candidates(
    token_counts: IntArray,
    frame_counts: IntArray,
    multiples: tuple[int, int],
    weights: FloatArray | None,
) -> _Candidates:
    token_multiple, frame_multiple = multiples
    while True:
        rows, columns = -(-token_counts // token_multiple), -(-frame_counts // frame_multiple)
        width = int(columns.max()) + 1
        clips = np.bincount(
            rows.astype(np.int64) * width + columns,
            weights,
            minlength=(int(rows.max()) + 1) * width,
        ).reshape(-1, width)
        has_row, has_column = np.cumsum(clips, axis=1) > 0, np.cumsum(clips, axis=0) > 0
        tokens, frames = np.nonzero(has_row & has_column)
        if tokens.size <= _MOST_CANDIDATES:
            break
        token_multiple, frame_multiple = 2 * token_multiple, 2 * frame_multiple
    fitting = clips.cumsum(axis=0).cumsum(axis=1)[tokens, frames].astype(np.float64)
    # In row-major order, so the last candidate fits every clip.
    return _Candidates(
        (tokens * token_multiple).astype(np.int32),
        (frames * frame_multiple).astype(np.int32),
        fitting,
    )


def _follow_back(predecessors: list[npt.NDArray[np.intp]], candidates: _Candidates) -> list[Size]:
    tokens, frames, fitting = candidates
    places = [fitting.size - 1]
    for choices in reversed(predecessors[1:]):
        places.append(int(choices[places[-1]]))
    places.reverse()
    before = [0.0, *fitting[places[:-1]]]
    return [
        Size(int(tokens[place]), int(frames[place]), float(fitting[place] - smaller))
        for place, smaller in zip(places, before, strict=True)
    ]
