"""A folder of files as one unit: either all of it is there and unchanged, or it does not count.

    FOLDER/<files>
           manifest.json    format, version, size and SHA-256 of every file and of the manifest

It is written beside its place, read back from the disk, and moved there when it is whole. Tensors
are in the safetensors format, so nothing is pickled and a folder from a stranger runs no code.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import safetensors
from safetensors.numpy import load_file

from myxtts.errors import CheckpointError

Tensors = dict[str, npt.NDArray[Any]]
Content = bytes | Tensors

MANIFEST = "manifest.json"
_FORMAT = "myxtts-checkpoint"
_VERSION = 1
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
# What more than these declare is not from MyXTTS.
_LARGEST_FILE_BYTES = 1 << 37
_LARGEST_TEXT_BYTES = 1 << 24
_CHUNK_BYTES = 1 << 22
_DTYPES = {"float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "bool": "BOOL"}
# Manifest, directories and blocks that are not full.
_SPARE_BYTES = 1 << 20


@dataclass(frozen=True)
class _Entry:
    bytes: int
    sha256: str


def write_folder(folder: Path, files: Mapping[str, Content]) -> None:
    """Writes all files and moves them into place as one; what stood there is replaced."""
    part = folder.with_name(f".{folder.name}.part")
    try:
        _require_free_space(folder.parent, sum(map(_size_bytes, files.values())))
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        entries = {name: write_file(part / name, content) for name, content in files.items()}
        write_file(part / MANIFEST, _manifest(entries))
        sync_folder(part)
        verify_folder(part)
        move_into_place(part, folder)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be written ({_reason(error)})") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def verify_folder(folder: Path, names: Iterable[str] | None = None) -> None:
    """Compares the named files, or all, with their checksums; a difference is an error."""
    entries = _read_manifest(folder)
    for name in entries if names is None else names:
        if name not in entries:
            raise CheckpointError(f"{folder}: {name} is not part of it")
        found = _entry_of(folder / name, entries[name].bytes)
        if found != entries[name]:
            raise CheckpointError(f"{folder / name}: damaged, its checksum is not the one it had")


def checksum_of(folder: Path, name: str) -> str:
    """The SHA-256 that a file of the folder was written with."""
    entries = _read_manifest(folder)
    if name not in entries:
        raise CheckpointError(f"{folder}: {name} is not part of it")
    return entries[name].sha256


def read_tensors(file: Path) -> Tensors:
    try:
        return load_file(file)
    # The library lets the errors of NumPy through for types that NumPy does not have.
    except (OSError, safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{file}: cannot be read ({error})") from None


def read_json(file: Path) -> Any:
    """The content of a small JSON file; whatever is wrong with it is a CheckpointError."""
    try:
        if file.stat().st_size > _LARGEST_TEXT_BYTES:
            raise ValueError("too large")
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file}: cannot be read ({error})") from None


def _size_bytes(content: Content) -> int:
    if isinstance(content, bytes):
        return len(content)
    return sum(value.nbytes for value in content.values())


def _require_free_space(folder: Path, needed_bytes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed_bytes + _SPARE_BYTES:
        raise CheckpointError(
            f"{folder}: too little disk space, {free / 1e6:.0f} MB are free and the checkpoint "
            f"takes {(needed_bytes + _SPARE_BYTES) / 1e6:.0f} MB; make room, or lower "
            "saving.keep_checkpoints"
        )


def write_file(file: Path, content: Content) -> _Entry:
    """Bytes, or tensors as safetensors, on the disk when this returns."""
    checksum = hashlib.sha256()
    with open(file, "wb") as stream:
        for piece in [content] if isinstance(content, bytes) else _safetensors(content):
            stream.write(piece)
            checksum.update(piece)
        stream.flush()
        os.fsync(stream.fileno())
        _forget_pages(stream)
        return _Entry(stream.tell(), checksum.hexdigest())


def _safetensors(tensors: Tensors) -> Iterator[bytes | memoryview]:
    """The file in pieces. The library's own writer would hold up the training thread meanwhile."""
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


def _forget_pages(stream: IO[bytes]) -> None:
    """What is read next then comes from the disk itself; where that cannot be, from memory."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _entry_of(file: Path, expected_bytes: int) -> _Entry:
    checksum, size = hashlib.sha256(), 0
    try:
        with open(file, "rb") as stream:
            if os.fstat(stream.fileno()).st_size == expected_bytes:
                while piece := stream.read(_CHUNK_BYTES):
                    checksum.update(piece)
                    size += len(piece)
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None
    return _Entry(size, checksum.hexdigest())


def _manifest(entries: Mapping[str, _Entry]) -> bytes:
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "files": {name: asdict(entry) for name, entry in entries.items()},
    }
    return _sealed(content)


def _sealed(content: dict[str, Any]) -> bytes:
    seal = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return json.dumps({**content, "seal": seal}, indent=1).encode()


def _read_manifest(folder: Path) -> dict[str, _Entry]:
    file = folder / MANIFEST
    content = read_json(file)
    try:
        if content["format"] != _FORMAT:
            raise ValueError("another format")
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']}, this program reads {_VERSION}")
        # Written anew it has to be the same, byte for byte: then nothing in it was changed.
        del content["seal"]
        if _sealed(content) != file.read_bytes():
            raise ValueError("damaged, its checksum is not the one it had")
        entries = {name: _Entry(**entry) for name, entry in content["files"].items()}
        for name, entry in entries.items():
            if not _FILE_NAME.fullmatch(name) or not 0 <= entry.bytes <= _LARGEST_FILE_BYTES:
                raise ValueError(f"{name[:64]!r} is no file of a checkpoint")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{file}: not a checkpoint of this version ({error})") from None
    return entries


def move_into_place(part: Path, folder: Path) -> None:
    """What stood there goes only when the other has taken its place."""
    aside = folder.with_name(f".{folder.name}.replaced")
    shutil.rmtree(aside, ignore_errors=True)
    if folder.exists():
        folder.rename(aside)
    try:
        part.rename(folder)
    except OSError as error:
        raise CheckpointError(
            f"{folder}: was written whole and cannot be moved into place ({_reason(error)}); keep "
            "runs on a file system that can rename a folder, by --run-dir DIR"
        ) from None
    sync_folder(folder.parent)
    shutil.rmtree(aside, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Makes names in a folder outlive a power cut; some file systems cannot and need not."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{error.strerror}; make room, or keep runs elsewhere by --run-dir DIR"
    return error.strerror or str(error)
