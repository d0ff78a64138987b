"""Files and folders that are whole where they stand: written beside their place, then renamed.

A temporary is named `.NAME.xxxxxxxx.part`, with eight random digits: two processes that write the
same file do not meet before the rename, and the later one wins. It is created exclusively, so
nothing that lies there already is opened, and no link is followed. Whatever goes wrong is an
OSError for the caller to explain; then the temporary is gone and what stood in its place is still
there. Knows nothing of what is written.
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
# The digits may be missing: run folders out there have temporaries without them.
_TEMPORARY = re.compile(r"\.(.+?)(?:\.[0-9a-f]{8})?\.(?:part|replaced)", re.DOTALL)
_RANDOM_BYTES = 4
_ATTEMPTS = 100
# Not every system has the last two: O_BINARY is of Windows, O_NOFOLLOW of the others.
_EXCLUSIVELY = (
    os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
)


class MoveError(OSError):
    """A folder was written whole and could not be moved into place."""


@contextlib.contextmanager
def whole_file(file: Path, *, durable: bool = False, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A stream whose content stands in `file` once the block ends without an error.

    A durable file is on the disk by then and outlives a power cut. `mode` is narrowed by the umask.
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
    """`whole_file` for content that is at hand; text is written as UTF-8."""
    with whole_file(file, durable=durable, mode=mode) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def whole_folder(folder: Path, *, replace: bool = False, durable: bool = False) -> Iterator[Path]:
    """An empty folder to fill, which becomes `folder` once the block ends without an error.

    Without `replace`, a folder that stands there with something in it is a MoveError. With
    `durable` the names outlive a power cut; the files in it are the caller's to sync.
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
    """What stood there goes only when the other has taken its place; a file there is an error."""
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
    """What was written so far is on the disk when this returns."""
    stream.flush()
    os.fsync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Makes names in a folder outlive a power cut; some file systems cannot and need not."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def temporaries_of(place: Path) -> list[Path]:
    """What writers that were killed, or are still at work, have beside a file or folder."""
    return [path for path in _temporaries_in(place.parent) if _place_name(path) == place.name]


def remove_temporaries(folder: Path) -> None:
    """All that lie in a folder; only for who knows that nobody is writing there."""
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
    """Makes what must not be there yet; a name that is taken is left alone, and another tried."""
    for _ in range(_ATTEMPTS):
        part = _temporary_name(place, TEMPORARY_SUFFIX)
        with contextlib.suppress(FileExistsError):
            return part, make(part)
    raise FileExistsError(errno.EEXIST, "every name for a temporary is taken", str(place))


def _move_aside(folder: Path) -> Path | None:
    if not os.path.lexists(folder):
        return None
    return folder.rename(_temporary_name(folder, _REPLACED_SUFFIX))


def _remove(path: Path) -> None:
    """A link goes, and what it leads to stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
