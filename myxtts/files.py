"""Atomic writes of files and folders, and JSON.

Content goes to `.NAME.xxxxxxxx.part` next to the target, which is then renamed. The digits are
random, so processes that write the same file do not interfere, and the last rename wins. A failure
is an OSError for the caller to explain. It leaves the target unchanged and no temporary.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

_TEMPORARY = re.compile(r"\.(.+?)\.[0-9a-f]{8}\.(?:part|replaced)", re.DOTALL)


class MoveError(OSError):
    """A complete folder could not be moved into place."""


@contextlib.contextmanager
def atomic_file(file: Path, *, durable: bool = False) -> Iterator[IO[bytes]]:
    """Yield a stream that becomes `file` when the block ends without an error.

    A durable file is synced to disk and survives a power failure.
    """
    part = _temporary(file, "part")
    try:
        with part.open("xb") as stream:  # never opens an existing file or follows a link
            yield stream
            if durable:
                sync_stream(stream)
        part.replace(file)
    except BaseException:
        _remove(part)
        raise
    if durable:
        _sync_folder(file.parent)


def write_file(file: Path, content: bytes | str) -> None:
    """Write a whole file atomically, text as UTF-8."""
    with atomic_file(file) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def atomic_folder(folder: Path, *, replace: bool = False, durable: bool = False) -> Iterator[Path]:
    """Yield an empty folder that becomes `folder` when the block ends without an error.

    Without `replace`, an existing folder with content is a MoveError. With `durable` the names
    survive a power failure; the caller syncs the files.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = _temporary(folder, "part")
    part.mkdir()
    try:
        yield part
        move_into_place(part, folder, replace=replace, durable=durable)
    except BaseException:
        _remove(part)
        raise


def move_into_place(
    part: Path, folder: Path, *, replace: bool = False, durable: bool = False
) -> None:
    """Rename a folder, and remove the replaced one only afterwards."""
    if durable:
        _sync_folder(part)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "a file is in the way", str(folder))
    aside = None
    try:
        if replace and os.path.lexists(folder):
            aside = folder.rename(_temporary(folder, "replaced"))
        try:
            part.rename(folder)
        except OSError:
            if aside is not None:
                aside.rename(folder)
            raise
    except OSError as error:
        raise MoveError(error.errno, error.strerror, str(folder)) from error
    if durable:
        _sync_folder(folder.parent)
    if aside is not None:
        _remove(aside)


def remove_folder(folder: Path) -> None:
    """Remove a folder, of which a kill leaves at most a temporary."""
    with contextlib.suppress(OSError):
        _remove(folder.rename(_temporary(folder, "replaced")))


def sync_stream(stream: IO[bytes]) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def require_creatable(target: Path) -> None:
    """Raise an OSError if no file or folder can be created at the target."""
    part = _temporary(target, "part")
    part.touch(exist_ok=False)
    _remove(part)


def remove_temporaries(folder: Path) -> None:
    """Remove all temporaries in a folder; only safe while nobody writes there."""
    for path in list(folder.glob(".*")):
        if _TEMPORARY.fullmatch(path.name):
            _remove(path)


def read_json(file: Path, names: Iterable[str] = ()) -> Any:
    """Return the content of a file; an OSError, or a ValueError as in `parse_json`."""
    return parse_json(file.read_bytes(), names)


def parse_json(text: str | bytes, names: Iterable[str] = ()) -> Any:
    """Return the value; a ValueError unless it is an object with all of these names, if any."""
    content = json.loads(text)
    for name in names:
        if not isinstance(content, dict):
            raise ValueError(f"found {type(content).__name__}, expected an object")
        if name not in content:
            raise ValueError(f"'{name}' is missing")
    return content


def is_text(name: Path | str) -> bool:
    """Return whether a file name is UTF-8."""
    try:
        str(name).encode()
    except UnicodeEncodeError:
        return False
    return True


def _temporary(target: Path, suffix: str) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.{suffix}")


def _remove(path: Path) -> None:
    """Remove a file, a folder or a link, but not the target of a link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power failure, on file systems that need it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
