"""Loads the features of a corpus into memory in the background, while training runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from myxtts.data.cache import FeatureCache

_log = logging.getLogger(__name__)


def bytes_of(cache: FeatureCache, parts: Sequence[str]) -> int:
    return sum(cache.reader.nbytes(part) for part in parts)


class MemoryCache:
    """Has the reader of a cache hold parts in memory, one by one.

    Whoever reads clips gets the same values from either.
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
        try:
            for part in self._parts:
                self._cache.reader.hold(part, lambda: self._closed)
        except (OSError, MemoryError) as error:
            # Whoever needs the clips hears of it when reading them.
            _log.warning("features stay on disk: %s", error)
