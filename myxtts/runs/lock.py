"""Keeps two runs from writing to one folder.

The operating system releases the lock of a process that ends, however it ends, so locks are never
stale. On file systems without locks, the process named in the file decides.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from myxtts.errors import CheckpointError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def hold_lock(file: Path) -> Iterator[None]:
    """Locks the folder of the file; raises a CheckpointError if another run holds the lock."""
    with _opened(file) as stream:
        owner = _read_owner(stream)
        if _is_held(stream, owner):
            raise CheckpointError(
                f"{file.parent}: is in use by another run, {_describe(owner)}; wait for it, or use "
                "another --run-dir"
            )
        if owner:
            _log.info("%s: taking over the stale lock of %s", file, _describe(owner))
        _write(stream, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        try:
            yield
        finally:
            # The file stays: deleting it could remove the lock of the next run.
            _write(stream, "")


def _opened(file: Path) -> IO[bytes]:
    try:
        return open(file, "ab+", buffering=0)
    except OSError as error:
        raise CheckpointError(
            f"{file}: cannot be used as the lock of the run ({error.strerror}); remove it if no "
            "other run uses this folder"
        ) from None


def _is_held(stream: IO[bytes], owner: dict[str, Any]) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
        else:
            return False
    return bool(owner) and not _is_gone(owner)


def _is_gone(owner: dict[str, Any]) -> bool:
    """Only a process of this machine can be known to have ended."""
    if owner["host"] != socket.gethostname():
        return False
    if owner["pid"] == os.getpid():  # containers reuse process ids
        return True
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except OSError:  # it exists and belongs to another user
        return False
    return False


def _describe(owner: dict[str, Any]) -> str:
    return f"process {owner['pid']} on {owner['host']}" if owner else "an unknown process"


def _read_owner(stream: IO[bytes]) -> dict[str, Any]:
    """Process id and host, or an empty dict."""
    stream.seek(0)
    with contextlib.suppress(ValueError, TypeError, KeyError):
        found = json.loads(stream.read())
        return {"pid": int(found["pid"]), "host": str(found["host"])}
    return {}


def _write(stream: IO[bytes], text: str) -> None:
    # On a full disk the lock still works; only the name of its owner is missing.
    with contextlib.suppress(OSError):
        stream.truncate(0)
        stream.write(text.encode())
        stream.flush()
