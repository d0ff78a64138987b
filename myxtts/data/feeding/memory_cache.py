"""Loads the features of a corpus into memory in the background, while training runs."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from myxtts.data.features.cache import FeatureCache

_ROWS_AT_ONCE = 1 << 16


def bytes_of(cache: FeatureCache, parts: Sequence[str]) -> int:
    return sum(cache.arrays[part].nbytes for part in parts)


class MemoryCache:
    """Replaces memory-mapped arrays by copies in memory, one by one.

    Readers get the same values from either.
    """

    def __init__(self, cache: FeatureCache, parts: Sequence[str]) -> None:
        self._cache = cache
        self._parts = parts
        self._closed = False
        self._thread = threading.Thread(target=self._read, name="memory cache", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        self._thread.join()

    def close(self) -> None:
        self._closed = True
        self._thread.join()

    def _read(self) -> None:
        for part in self._parts:
            mapped = self._cache.arrays[part]
            copy = np.empty_like(mapped)
            for start in range(0, len(mapped), _ROWS_AT_ONCE):
                if self._closed:
                    return
                copy[start : start + _ROWS_AT_ONCE] = mapped[start : start + _ROWS_AT_ONCE]
            self._cache.arrays[part] = copy
