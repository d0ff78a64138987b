"""Rows of a .npy file, read when they are asked for.

Not memory-mapped: there, a file that was cut short or a disk that fails ends the whole process
(SIGBUS). Here it is an OSError.
"""

from __future__ import annotations

import errno
import math
import os
import tokenize
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from myxtts.plain_files import open_plain

# NumPy reads headers as Python source, and passes on what that may raise.
NOT_AN_ARRAY = (ValueError, SyntaxError, tokenize.TokenError, TypeError, KeyError, RecursionError)


class StoredArray:
    """May be read by several threads. The file stays open, so it may be deleted meanwhile."""

    def __init__(self, file: Path, dtype: Any, dimensions: int = 1) -> None:
        self._file = file
        with open_plain(file) as stream:
            version = np.lib.format.read_magic(stream)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }.get(version)
            if read is None:
                raise ValueError(f"{file.name}: version {version}")
            try:
                shape, is_fortran, found = read(stream)
            except NOT_AN_ARRAY as error:
                raise ValueError(f"{file.name}: not an array ({error})") from None
            if found != dtype or is_fortran or len(shape) != dimensions or min(shape) < 0:
                raise ValueError(f"{file.name}: holds {found} in {len(shape)} dimensions")
            self.dtype = np.dtype(dtype)
            self.row_shape: tuple[int, ...] = tuple(shape[1:])
            self._rows = shape[0]
            self._row_bytes = self.dtype.itemsize * math.prod(self.row_shape)
            self._offset = stream.tell()
            size = os.fstat(stream.fileno()).st_size
            if size != self._offset + self.nbytes:
                raise ValueError(
                    f"{file.name}: {size} bytes, expected {self._offset + self.nbytes}"
                )
            self._descriptor = os.dup(stream.fileno())
        weakref.finalize(self, os.close, self._descriptor)

    def __len__(self) -> int:
        return self._rows

    @property
    def nbytes(self) -> int:
        return self._rows * self._row_bytes

    def rows(self, start: int, stop: int) -> npt.NDArray[Any]:
        """A copy."""
        values = np.empty((stop - start, *self.row_shape), self.dtype)
        left = memoryview(values.reshape(-1).view(np.uint8))
        place = self._offset + start * self._row_bytes
        while left.nbytes:
            read = os.preadv(self._descriptor, [left], place)
            if read == 0:
                raise OSError(errno.EIO, "the file has become shorter", str(self._file))
            left, place = left[read:], place + read
        return values
