"""The few static shapes that speech is sampled in: texts, positions and rows are padded to them.

With open dimensions one trace serves all of them; with fewer shapes, kernels and buffers that were
prepared for one sentence serve the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

_Item = TypeVar("_Item")

TEXT_SIZES = (64, 128, 192, 256, 512, 1_024, 2_048)
"""Tokens of a sentence."""
POSITION_SIZES = (48, 64, 112, 128, 192, 256, 384, 512, 1_024)
"""Positions that are decoded at once; a longer sentence is decoded in windows.

None between 64 and 112: oneDNN computes products that fit into a core's cache on that core alone,
and 96 positions take longer than 112.
"""
ROWS_OF_BATCH = 4
# Larger batches are not faster on a CPU: their values no longer fit into its caches.
_MOST_POSITIONS = 2_048


def size_for(length: int, sizes: Sequence[int]) -> int:
    """The smallest of the sizes that holds `length`; what is longer than all has its own size."""
    return next((size for size in sizes if size >= length), length)


def row_counts(size: int) -> tuple[int, ...]:
    """How many sentences of a size are computed at once: several, or one."""
    return (ROWS_OF_BATCH, 1) if ROWS_OF_BATCH * size <= _MOST_POSITIONS else (1,)


def batches(
    items: Iterable[_Item], length_of: Callable[[_Item], int], sizes: Sequence[int]
) -> Iterator[tuple[int, list[_Item]]]:
    """Splits items into full batches of one size: (size, items) with a count of `row_counts`.

    Which size an item gets depends on nothing but its length.
    """

    def size_of(item: _Item) -> int:
        return size_for(length_of(item), sizes)

    for size, alike in groupby(sorted(items, key=size_of), size_of):
        waiting = list(alike)
        for count in row_counts(size):
            while len(waiting) >= count:
                yield size, waiting[:count]
                waiting = waiting[count:]
