"""NumPy's .npy files, as features are stored in them."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt


def mapped(file: Path) -> npt.NDArray[Any]:
    """Return a memory-mapped array, which stays readable when the file is deleted."""
    return np.asarray(np.load(file, mmap_mode="r"))


def write_header(stream: IO[bytes], dtype: Any, shape: tuple[int, ...]) -> None:
    """Begin a file whose rows are written after it."""
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_2_0(stream, header)


def save_array(file: Path, array: npt.NDArray[Any]) -> None:
    """Write like np.save, whose error on a full disk does not say that it is full."""
    with open(file, "wb") as stream:
        write_header(stream, array.dtype, array.shape)
        stream.write(np.ascontiguousarray(array).data)
