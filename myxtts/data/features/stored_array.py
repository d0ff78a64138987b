"""Rows of a .npy file, read when they are asked for.

Not memory-mapped: there, a file that was cut short or a disk that fails ends the whole process
(SIGBUS). Here it is an OSError.
"""

from __future__ import annotations

import ast
import errno
import io
import math
import os
import weakref
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from myxtts.plain_files import open_plain

_MAGIC = b"\x93NUMPY"
# The number of bytes that tell the length of the header, by version.
_LENGTH_BYTES = {b"\1\0": 2, b"\2\0": 4}
_LARGEST_HEADER_BYTES = 1 << 16


class StoredArray:
    """May be read by several threads. The file stays open, so it may be deleted meanwhile."""

    def __init__(self, file: Path, dtype: Any, dimensions: int = 1) -> None:
        self._file = file
        self.dtype = np.dtype(dtype)
        with open_plain(file) as stream:
            try:
                shape = _read_shape(stream, self.dtype)
            except ValueError as error:
                raise ValueError(f"{file.name}: {error}") from None
            if len(shape) != dimensions:
                raise ValueError(f"{file.name}: has {len(shape)} dimensions")
            self._rows, *row_shape = shape
            self.row_shape = tuple(row_shape)
            self._row_bytes = self.dtype.itemsize * math.prod(row_shape)
            self._offset = stream.tell()
            size, expected = os.fstat(stream.fileno()).st_size, self._offset + self.nbytes
            if size != expected:
                raise ValueError(f"{file.name}: {size} bytes, expected {expected}")
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
        left = values.reshape(-1).view(np.uint8).data
        place = self._offset + start * self._row_bytes
        while left.nbytes:
            read = os.preadv(self._descriptor, [left], place)
            if read == 0:
                raise OSError(errno.EIO, "the file has become shorter", str(self._file))
            left, place = left[read:], place + read
        return values


def read_array(file: Path, dtype: Any, dimensions: int = 1) -> npt.NDArray[Any]:
    """A whole file."""
    stored = StoredArray(file, dtype, dimensions)
    return stored.rows(0, len(stored))


def _read_shape(stream: IO[bytes], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Of an array of this type. NumPy's own reader runs into any error a parser can have."""
    length_bytes = _LENGTH_BYTES.get(stream.read(8).removeprefix(_MAGIC))
    if length_bytes is None:
        raise ValueError("not an array")
    length = int.from_bytes(stream.read(length_bytes), "little")
    if length > _LARGEST_HEADER_BYTES:
        raise ValueError("its header is too long")
    try:
        header = ast.literal_eval(stream.read(length).decode("latin-1").strip())
        descr, is_fortran, shape = (header[key] for key in ("descr", "fortran_order", "shape"))
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise ValueError(f"its header cannot be read ({error})") from None
    if descr != np.lib.format.dtype_to_descr(dtype) or is_fortran is not False:
        raise ValueError(f"holds {str(descr)[:80]}, expected {dtype.name}")
    is_shape = type(shape) is tuple and all(type(size) is int and size >= 0 for size in shape)
    if not is_shape or math.prod(shape) >= 1 << 60:
        raise ValueError("its shape cannot be")
    sizes: tuple[int, ...] = shape
    return sizes


def write_header(stream: IO[bytes], dtype: Any, shape: tuple[int, ...]) -> None:
    """Of a file whose rows are written after it."""
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_2_0(stream, header)


def save_array(file: Path, array: Any) -> None:
    """Like np.save, whose error on a full disk does not say that it is full."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    file.write_bytes(buffer.getbuffer())
