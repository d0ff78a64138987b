"""Fewer points of long curves, so that a page with a million steps stays small."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

# More than the pixels of a panel.
_MOST_POINTS = 1_200
_MOST_INTERVALS = 300


def thinned(values: Sequence[float]) -> list[int]:
    """Places to keep: the smallest and the largest of each stretch, and both ends."""
    count = len(values)
    if count <= _MOST_POINTS:
        return list(range(count))
    array = np.asarray(values, float)
    edges = np.linspace(0, count, _MOST_POINTS // 2 + 1).astype(int)
    kept = {0, count - 1}
    for first, end in itertools.pairwise(edges):
        stretch = array[first:end]
        kept |= {int(first + stretch.argmin()), int(first + stretch.argmax())}
    return sorted(kept)


def averaged(rows: Sequence[Sequence[float]], weights: Sequence[float]) -> list[list[float]]:
    """Weighted means of neighbouring rows, at most a few hundred."""
    count = len(rows)
    if count <= _MOST_INTERVALS:
        return [list(row) for row in rows]
    array, weight = np.asarray(rows, float), np.maximum(np.asarray(weights, float), 1e-9)
    edges = _edges(count)[:-1]
    sums = np.add.reduceat(array * weight[:, None], edges, axis=0)
    means: list[list[float]] = (sums / np.add.reduceat(weight, edges)[:, None]).tolist()
    return means


def ends_of_averaged(count: int) -> list[int]:
    """The place of the last row in each mean of `averaged`."""
    if count <= _MOST_INTERVALS:
        return list(range(count))
    ends: list[int] = (_edges(count)[1:] - 1).tolist()
    return ends


def _edges(count: int) -> np.ndarray:
    return np.linspace(0, count, _MOST_INTERVALS + 1).astype(int)
