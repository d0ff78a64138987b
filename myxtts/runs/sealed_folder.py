"""A folder of files as one unit: valid only if all files are present and unchanged.

    FOLDER/<files>
           manifest.json    format, version, size and SHA-256 of every file and of the manifest

It is written under a temporary name and renamed when complete. Does not know what the files are.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from myxtts.errors import CheckpointError
from myxtts.json_files import parse_json
from myxtts.runs.tensor_files import Tensors, save_tensors
from myxtts.whole_files import MoveError, sync_stream, whole_folder

MANIFEST = "manifest.json"
_FORMAT = "myxtts-checkpoint"
_VERSION = 1
# For the manifest, directories and partly filled blocks.
_SPARE_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 22

Content = bytes | Tensors


@dataclass(frozen=True)
class Written:
    """Identifies the content of a file."""

    bytes: int
    sha256: str


def write_sealed_folder(folder: Path, files: Mapping[str, Content]) -> None:
    """Writes all files and renames them into place as one; replaces an existing folder."""
    with failures_explained(folder):
        _require_free_space(folder.parent, sum(map(_size_bytes, files.values())))
        with whole_folder(folder, replace=True, durable=True) as part:
            entries = {name: _write(part / name, content) for name, content in files.items()}
            _write(part / MANIFEST, _manifest(entries))


@contextlib.contextmanager
def failures_explained(folder: Path) -> Iterator[None]:
    """Turns an OSError from writing a folder of a run into a CheckpointError."""
    try:
        yield
    except MoveError as error:
        raise CheckpointError(
            f"{folder}: was written but cannot be renamed into place ({_reason(error)}); use a "
            "file system that can rename folders, with --run-dir DIR"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be written ({_reason(error)})") from None


def is_sealed_folder(folder: Path) -> bool:
    """Whether it has a manifest; does not verify it."""
    return (folder / MANIFEST).is_file()


def verify_sealed_folder(folder: Path, names: Iterable[str] | None = None) -> None:
    """Compares the named files, or all, with their checksums; a difference is an error."""
    entries = _read_manifest(folder)
    for name in entries if names is None else names:
        if name not in entries:
            raise CheckpointError(f"{folder}: {name} is not part of it")
        try:
            found = _content_of(folder / name)
        except OSError as error:
            raise CheckpointError(f"{folder / name}: cannot be read ({error.strerror})") from None
        if found != entries[name]:
            raise CheckpointError(f"{folder / name}: damaged, checksum mismatch")


def checksum_of(folder: Path, name: str) -> str:
    """The SHA-256 of a file according to the manifest."""
    entries = _read_manifest(folder)
    if name not in entries:
        raise CheckpointError(f"{folder}: {name} is not part of it")
    return entries[name].sha256


def _size_bytes(content: Content) -> int:
    if isinstance(content, bytes):
        return len(content)
    return sum(value.nbytes for value in content.values())


def _require_free_space(folder: Path, needed_bytes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed_bytes + _SPARE_BYTES:
        raise CheckpointError(
            f"{folder}: not enough disk space, {free / 1e6:.0f} MB free and the checkpoint needs "
            f"{(needed_bytes + _SPARE_BYTES) / 1e6:.0f} MB; free some space, or lower "
            "saving.keep_checkpoints"
        )


def _write(file: Path, content: Content) -> Written:
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        save_tensors(file, content)
    with open(file, "rb+") as stream:
        sync_stream(stream)
    return _content_of(file)


def _content_of(file: Path) -> Written:
    """As it is on disk."""
    checksum, size = hashlib.sha256(), 0
    with open(file, "rb") as stream:
        while piece := stream.read(_CHUNK_BYTES):
            checksum.update(piece)
            size += len(piece)
    return Written(size, checksum.hexdigest())


def _manifest(entries: Mapping[str, Written]) -> bytes:
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "files": {name: asdict(entry) for name, entry in entries.items()},
    }
    return _sealed(content)


def _sealed(content: dict[str, Any]) -> bytes:
    seal = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return json.dumps({**content, "seal": seal}, indent=1).encode()


def _read_manifest(folder: Path) -> dict[str, Written]:
    file = folder / MANIFEST
    try:
        written = file.read_bytes()
        content = parse_json(written, ("format", "version", "files", "seal"))
        if content["format"] != _FORMAT:
            raise ValueError("unknown format")
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']}, this program reads {_VERSION}")
        # Serialised again it must be the same, byte for byte; else it was changed.
        del content["seal"]
        if _sealed(content) != written:
            raise ValueError("damaged, checksum mismatch")
        entries = {name: Written(**entry) for name, entry in content["files"].items()}
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None
    except (ValueError, TypeError) as error:
        raise CheckpointError(
            f"{file}: not a checkpoint that this version reads ({error})"
        ) from None
    return entries


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{error.strerror}; free some space, or use another --run-dir DIR"
    return error.strerror or str(error)
