"""Mels of all clips of a cache in a file of their own: [frames, mels], float16, clip after clip."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from myxtts.data.array_files import mapped, write_header
from myxtts.data.cache import FeatureCache
from myxtts.errors import DataError
from myxtts.whole_files import whole_file


class ClipMels:
    """As many frames for each clip as its own mel has."""

    def __init__(self, file: Path, cache: FeatureCache, n_mels: int) -> None:
        self._file = file
        ends = np.cumsum(cache.frame_counts, dtype=np.int64)
        # Clips that were rejected leave gaps in the arrays of a cache, and none here.
        self._starts = (ends - cache.frame_counts).tolist()
        self._counts = cache.frame_counts.tolist()
        try:
            self._rows = mapped(file)
            expected = (int(ends[-1]), n_mels)
            if self._rows.shape != expected:
                raise ValueError(f"shape {self._rows.shape}, expected {expected}")
        except ValueError as error:
            raise self._damaged(str(error)) from None

    def of(self, clip: int, first: int = 0, count: int | None = None) -> npt.NDArray[np.float16]:
        """Its frames, or at most `count` from the `first` on."""
        frames = self._counts[clip]
        last = frames if count is None else min(first + count, frames)
        start = self._starts[clip]
        mel = self._rows[start + first : start + last]
        if not np.isfinite(mel).all():
            raise self._damaged("has values that are not finite")
        return mel

    def _damaged(self, how: str) -> DataError:
        return DataError(f"{self._file}: {how}; delete it, it will be recreated")


def write_clip_mels(
    file: Path, cache: FeatureCache, n_mels: int, mels: Iterable[npt.NDArray[np.float32]]
) -> None:
    with whole_file(file) as stream:
        write_header(stream, np.float16, (int(cache.frame_counts.sum()), n_mels))
        for mel in mels:
            stream.write(mel.astype(np.float16).tobytes())
