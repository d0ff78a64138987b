"""Atomic writes of files and folders: to a temporary next to the target, then renamed.

A temporary is named `.NAME.xxxxxxxx.part`, with eight random digits, so processes that write the
same file do not interfere, and the last rename wins. It is created exclusively: existing files are
not opened and links are not followed. Failures are OSErrors for the caller to explain; then the
temporary is removed and the target is unchanged. Knows nothing of the content.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TypeVar

_Made = TypeVar("_Made")

TEMPORARY_SUFFIX = ".part"
_REPLACED_SUFFIX = ".replaced"
_TEMPORARY = re.compile(r"\.(.+?)\.[0-9a-f]{8}\.(?:part|replaced)", re.DOTALL)
_RANDOM_BYTES = 4
_ATTEMPTS = 100
# The last two are platform-specific: O_BINARY exists on Windows, O_NOFOLLOW elsewhere.
_EXCLUSIVELY = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
)


class MoveError(OSError):
    """A complete folder could not be moved into place."""


@contextlib.contextmanager
def whole_file(file: Path, *, durable: bool = False, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A stream that becomes `file` when the block ends without an error.

    A durable file is synced to disk and survives a power failure. `mode` is subject to the umask.
    """
    part, descriptor = _create(file, lambda path: os.open(path, _EXCLUSIVELY, mode))
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            if durable:
                sync_stream(stream)
        os.replace(part, file)
    except BaseException:
        _remove(part)
        raise
    if durable:
        sync_folder(file.parent)


def write_whole_file(
    file: Path, content: bytes | str, *, durable: bool = False, mode: int = 0o666
) -> None:
    """`whole_file` for given content; text is encoded as UTF-8."""
    with whole_file(file, durable=durable, mode=mode) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def whole_folder(folder: Path, *, replace: bool = False, durable: bool = False) -> Iterator[Path]:
    """An empty folder to fill, which becomes `folder` when the block ends without an error.

    Without `replace`, an existing non-empty folder is a MoveError. With `durable` the names survive
    a power failure; the caller syncs the files in it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    part, _ = _create(folder, os.mkdir)
    try:
        yield part
        move_into_place(part, folder, replace=replace, durable=durable)
    except BaseException:
        _remove(part)
        raise


def move_into_place(
    part: Path, folder: Path, *, replace: bool = False, durable: bool = False
) -> None:
    """Removes the replaced folder only after the rename; an existing file is an error."""
    if durable:
        sync_folder(part)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "a file is in the way", str(folder))
    try:
        aside = _move_aside(folder) if replace else None
        try:
            part.rename(folder)
        except OSError:
            if aside is not None:
                aside.rename(folder)
            raise
    except OSError as error:
        raise MoveError(error.errno, error.strerror, str(folder)) from error
    if durable:
        sync_folder(folder.parent)
    if aside is not None:
        _remove(aside)


def sync_stream(stream: IO[bytes]) -> None:
    """Flushes and syncs to disk."""
    stream.flush()
    os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Makes renames in a folder survive a power failure; some file systems do not need it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def require_room(place: Path) -> None:
    """An OSError if nothing can be made where a file or folder is to be written later."""
    part, descriptor = _create(place, lambda path: os.open(path, _EXCLUSIVELY))
    os.close(descriptor)
    _remove(part)


def temporaries_of(place: Path) -> list[Path]:
    """Temporaries next to a file or folder, of killed or active writers."""
    return [path for path in _temporaries_in(place.parent) if _place_name(path) == place.name]


def remove_temporaries(folder: Path) -> None:
    """Removes all temporaries in a folder; only safe while nobody writes there."""
    for path in _temporaries_in(folder):
        _remove(path)


def _temporaries_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob(".*") if _TEMPORARY.fullmatch(path.name))


def _place_name(temporary: Path) -> str:
    match = _TEMPORARY.fullmatch(temporary.name)
    assert match is not None
    return match[1]


def _temporary_name(place: Path, suffix: str) -> Path:
    return place.with_name(f".{place.name}.{secrets.token_hex(_RANDOM_BYTES)}{suffix}")


def _create(place: Path, make: Callable[[Path], _Made]) -> tuple[Path, _Made]:
    """Creates a new temporary; if a name is taken, tries another."""
    for _ in range(_ATTEMPTS):
        part = _temporary_name(place, TEMPORARY_SUFFIX)
        with contextlib.suppress(FileExistsError):
            return part, make(part)
    raise FileExistsError(errno.EEXIST, "no free name for a temporary file", str(place))


def _move_aside(folder: Path) -> Path | None:
    if not os.path.lexists(folder):
        return None
    return folder.rename(_temporary_name(folder, _REPLACED_SUFFIX))


def _remove(path: Path) -> None:
    """Removes a link, but not its target."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
