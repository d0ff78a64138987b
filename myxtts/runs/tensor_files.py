"""Single files of tensors or JSON: written to survive a power failure, read as untrusted input.

Tensors are in the safetensors format, so nothing is pickled and an untrusted file runs no code.
Knows no folders and no file names.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import safetensors

from myxtts import json_files
from myxtts.errors import CheckpointError
from myxtts.plain_files import open_plain
from myxtts.whole_files import sync_stream
from myxtts.wording import printable

Tensors = dict[str, npt.NDArray[Any]]
Shapes = dict[str, tuple[int, ...]]
Content = bytes | Tensors

_CHUNK_BYTES = 1 << 22
_DTYPES = {"float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "bool": "BOOL"}


@dataclass(frozen=True)
class Written:
    """Identifies the content of a file."""

    bytes: int
    sha256: str


def write_content(stream: IO[bytes], content: Content) -> Written:
    """Writes bytes, or tensors as safetensors; they are on disk when this returns."""
    checksum = hashlib.sha256()
    for piece in [content] if isinstance(content, bytes) else _safetensors(content):
        stream.write(piece)
        checksum.update(piece)
    sync_stream(stream)
    _drop_page_cache(stream)
    return Written(stream.tell(), checksum.hexdigest())


def content_of(file: Path, expected_bytes: int) -> Written:
    """As it is on disk; a file of another size is not read."""
    checksum, size = hashlib.sha256(), 0
    try:
        with open_plain(file) as stream:
            if os.fstat(stream.fileno()).st_size == expected_bytes:
                while piece := stream.read(_CHUNK_BYTES):
                    checksum.update(piece)
                    size += len(piece)
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None
    return Written(size, checksum.hexdigest())


def tensor_shapes(file: Path) -> Shapes:
    """From the header alone; a type of numbers that is never written is an error."""
    with _opened(file) as tensors:
        slices = {name: tensors.get_slice(name) for name in tensors.keys()}  # noqa: SIM118
        for name, part in slices.items():
            if part.get_dtype() not in _DTYPES.values():
                raise CheckpointError(
                    f"{file}: {printable(name)[:80]} has numbers of type {part.get_dtype()}, "
                    f"expected one of {', '.join(_DTYPES.values())}"
                )
        return {name: tuple(part.get_shape()) for name, part in slices.items()}


def read_tensors(file: Path, names: Iterable[str] | None = None) -> Tensors:
    """The named tensors, or all; only these are read, and all their numbers are finite."""
    known = tensor_shapes(file)
    with _opened(file) as tensors:
        found = {name: tensors.get_tensor(name) for name in (known if names is None else names)}
    for name, value in found.items():
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise CheckpointError(f"{file}: {printable(name)[:80]} has numbers that are not finite")
    return found


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        open_plain(file).close()
        with safetensors.safe_open(file, "numpy") as tensors:
            yield tensors
    # The library passes on NumPy's errors for types that NumPy does not have.
    except (OSError, safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{file}: cannot be read ({error})") from None


def read_json(file: Path, schema: Any) -> Any:
    """The content of a small JSON file; any problem is a CheckpointError."""
    try:
        return json_files.read_json(file, schema)
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise CheckpointError(f"{file}: cannot be used ({error})") from None


def _safetensors(tensors: Tensors) -> Iterator[bytes | memoryview]:
    """The file in pieces. The library's own writer would block the training thread."""
    header: dict[str, Any] = {}
    arrays = []
    end = 0
    for name, value in tensors.items():
        start, end = end, end + value.nbytes
        header[name] = {
            "dtype": _DTYPES[value.dtype.name],
            "shape": list(value.shape),
            "data_offsets": [start, end],
        }
        arrays.append(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for array in arrays:
        for place in range(0, array.size, _CHUNK_BYTES):
            yield array[place : place + _CHUNK_BYTES].data


def _drop_page_cache(stream: IO[bytes]) -> None:
    """So that reading back comes from the disk, where the system supports it."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
