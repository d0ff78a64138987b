"""Reads the parts of prepared clips, each compared with its checksum the first time.

From memory-mapped files, or from memory once a part is held there. Several threads may read.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

_ROWS_AT_ONCE = 1 << 16


class DamagedClipError(Exception):
    """The numbers of a clip are not those that were prepared."""

    def __init__(self, clip: int) -> None:
        super().__init__(f"clip {clip}: checksum mismatch")
        self.clip = clip


class ClipReader:
    def __init__(self, index: npt.NDArray[Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._index = index
        self._arrays = arrays
        # Threads may verify a clip twice; that does no harm.
        self._verified = {part: np.zeros(len(index), bool) for part in arrays}
        self._held: dict[str, npt.NDArray[Any]] = {}

    def nbytes(self, part: str) -> int:
        return self._arrays[part].nbytes

    def row_shape(self, part: str) -> tuple[int, ...]:
        return self._arrays[part].shape[1:]

    def is_held(self, part: str) -> bool:
        return part in self._held

    def read(
        self, clip: int, part: str, first: int = 0, count: int | None = None
    ) -> npt.NDArray[Any]:
        """Rows of a part of a clip: all, or `count` from the `first` on. They must not change."""
        record = self._index[clip]
        start, length = int(record[f"{part}_start"]), int(record[f"{part}_count"])
        stop = length if count is None else min(length, first + count)
        if not self._verified[part][clip]:
            whole = self._rows(part, start, start + length)
            self._verify(clip, part, whole)
            return whole[first:stop]
        return self._rows(part, start + first, start + max(first, stop))

    def hold(self, part: str, is_stopped: Any = lambda: False) -> None:
        """Reads a whole part into memory; from then on it is read from there."""
        array = self._arrays[part]
        copy = np.empty_like(array)
        for start in range(0, len(array), _ROWS_AT_ONCE):
            if is_stopped():
                return
            stop = min(len(array), start + _ROWS_AT_ONCE)
            copy[start:stop] = array[start:stop]
        copy.flags.writeable = False
        self._held[part] = copy

    def _rows(self, part: str, start: int, stop: int) -> npt.NDArray[Any]:
        return self._held.get(part, self._arrays[part])[start:stop]

    def _verify(self, clip: int, part: str, rows: npt.NDArray[Any]) -> None:
        if checksum(rows) != int(self._index[clip][f"{part}_checksum"]):
            raise DamagedClipError(clip)
        self._verified[part][clip] = True


def checksum(rows: npt.NDArray[Any]) -> int:
    """Finds damage, not malice; fast enough for every clip that is read."""
    return zlib.crc32(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)
