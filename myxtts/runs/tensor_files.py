"""Files of tensors in the safetensors format: nothing is pickled, so no file runs code."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
from safetensors.numpy import save_file

from myxtts.errors import CheckpointError

Tensors = dict[str, npt.NDArray[Any]]
Shapes = dict[str, tuple[int, ...]]

_SYSTEM_ERROR = re.compile(r"os error (\d+)")


def save_tensors(file: Path, tensors: Tensors) -> None:
    """Write the file; other threads run meanwhile. A full disk is an OSError."""
    try:
        save_file({name: np.asarray(value, order="C") for name, value in tensors.items()}, file)
    except safetensors.SafetensorError as error:
        if found := _SYSTEM_ERROR.search(str(error)):
            number = int(found[1])
            raise OSError(number, os.strerror(number), str(file)) from None
        raise


def tensor_shapes(file: Path) -> Shapes:
    """Return the shape of every tensor, from the header alone."""
    with _opened(file) as tensors:
        names = list(tensors.keys())
        return {name: tuple(tensors.get_slice(name).get_shape()) for name in names}


def read_tensors(file: Path, names: Iterable[str] | None = None) -> Tensors:
    """Return the named tensors, or all."""
    with _opened(file) as tensors:
        wanted = tensors.keys() if names is None else names
        return {name: tensors.get_tensor(name) for name in wanted}


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        with safetensors.safe_open(file, "numpy") as tensors:
            yield tensors
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{file}: cannot be read ({error})") from None
