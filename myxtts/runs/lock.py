"""Keeps two runs out of one folder.

The system gives up the lock of a process that ended, however it ended, so a lock is never in the
way by mistake. Where a file system has no locks, the process that is named in the file decides.
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

_LARGEST_BYTES = 4_096


@contextlib.contextmanager
def hold_lock(file: Path) -> Iterator[None]:
    """Holds the folder of the lock file inside; another run that holds it is a CheckpointError."""
    with open(file, "a+b", buffering=0) as stream:
        owner = _read_owner(stream)
        if _is_held(stream, owner):
            raise CheckpointError(
                f"{file.parent}: another run is under way there, {_describe(owner)}; wait for it, "
                "or give this one another --run-dir"
            )
        if owner:
            _log.info("%s: the lock of %s is stale and is taken over", file, _describe(owner))
        _write(stream, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        try:
            yield
        finally:
            # The file stays: removing it could take away the lock of the next run.
            _write(stream, "")


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
    """Only a process of this machine can be known to be gone."""
    if owner["host"] != socket.gethostname():
        return False
    if owner["pid"] == os.getpid():  # in containers the numbers come again
        return True
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is there and belongs to somebody else
        return False
    return False


def _describe(owner: dict[str, Any]) -> str:
    return f"process {owner['pid']} on {owner['host']}" if owner else "by a process without a name"


def _read_owner(stream: IO[bytes]) -> dict[str, Any]:
    """Process and host, or nothing where the file says neither."""
    stream.seek(0)
    content = stream.read(_LARGEST_BYTES)
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        found = json.loads(content)
        if 0 < found["pid"] < 1 << 31:
            return {"pid": int(found["pid"]), "host": str(found["host"])}
    return {}


def _write(stream: IO[bytes], text: str) -> None:
    # On a full disk the lock still holds, and only the name of its owner is missing.
    with contextlib.suppress(OSError):
        stream.truncate(0)
        stream.write(text.encode())
        stream.flush()
