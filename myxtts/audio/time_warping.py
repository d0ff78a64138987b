"""Dynamic time warping: aligns the frames of two clips."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

_Float = TypeVar("_Float", np.float32, np.float64)
Indices = npt.NDArray[np.intp]


def frame_distances(ours: npt.NDArray[_Float], theirs: npt.NDArray[_Float]) -> npt.NDArray[_Float]:
    """Euclidean distance of each frame [frames, features] of a clip from each of another."""
    squares = (ours**2).sum(1)[:, None] + (theirs**2).sum(1)[None] - 2 * ours @ theirs.T
    distances: npt.NDArray[_Float] = np.sqrt(np.maximum(squares, 0.0))
    return distances


def warp(cost: npt.NDArray[np.floating]) -> tuple[Indices, Indices]:
    """The cheapest path through [rows, columns] from corner to corner, as indices of both.

    The cells of a diagonal are independent, so each diagonal is one operation.
    """
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0.0
    for diagonal in range(2, rows + columns + 1):
        row = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        column = diagonal - row
        before = np.minimum(total[row - 1, column], total[row, column - 1])
        before = np.minimum(before, total[row - 1, column - 1])
        total[row, column] = cost[row - 1, column - 1] + before
    return _path_back(total)


def _path_back(total: npt.NDArray[np.float64]) -> tuple[Indices, Indices]:
    row, column = total.shape[0] - 1, total.shape[1] - 1
    path = []
    while row > 0 and column > 0:
        path.append((row - 1, column - 1))
        steps = ((row - 1, column - 1), (row - 1, column), (row, column - 1))
        row, column = min(steps, key=lambda step: total[step])
    rows, columns = np.array(path[::-1], np.intp).T
    return rows, columns
