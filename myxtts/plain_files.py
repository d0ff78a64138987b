"""Opens files that others have made: regular files only, and never more than a bound.

A name may lead to a device without an end or to a FIFO that nobody writes to. In a folder from
elsewhere it may be a link to any file of the user; the files of a run are never opened through
one. Failures are OSErrors for the caller to explain. Knows nothing of the content.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO

# Windows has neither; O_NONBLOCK keeps open() from waiting for the writer of a FIFO.
_CAREFULLY = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | os.O_CLOEXEC
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_PIECE_BYTES = 1 << 22


def is_text(name: Path | str) -> bool:
    """Whether a name is valid text; one in another encoding is not."""
    try:
        str(name).encode()
    except UnicodeEncodeError:
        return False
    return True


def open_plain(file: Path, *, follow_links: bool = False) -> IO[bytes]:
    """A regular file to read."""
    flags = os.O_RDONLY | _CAREFULLY | (0 if follow_links else _NO_LINK)
    return os.fdopen(_open_regular(file, flags), "rb")


def read_plain(file: Path, most_bytes: int, *, follow_links: bool = False) -> bytes:
    """The content of a regular file; a larger one is an error and is not read."""
    with open_plain(file, follow_links=follow_links) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > most_bytes:
            raise OSError(errno.EFBIG, f"{size} bytes, expected at most {most_bytes}", str(file))
        # Some files of the system declare no size and have content. In pieces: a read takes the
        # memory of all it may return before it knows how much that is.
        pieces, left = [], most_bytes + 1
        while piece := stream.read(min(left, _PIECE_BYTES)):
            pieces.append(piece)
            left -= len(piece)
    content = b"".join(pieces)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"more than {most_bytes} bytes", str(file))
    return content


def open_to_append(file: Path) -> IO[bytes]:
    """A file of a run, made if it is missing, to read and to append to; unbuffered.

    A second name of the same file is refused as a link is: another file would change with it.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _CAREFULLY | _NO_LINK
    descriptor = _open_regular(file, flags)
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EMLINK, "has a second name elsewhere (a hard link)", str(file))
    return os.fdopen(descriptor, "r+b", buffering=0)


def _open_regular(file: Path, flags: int) -> int:
    try:
        descriptor = os.open(file, flags, 0o666)
    except ValueError as error:  # a name that no file can have
        raise OSError(errno.EINVAL, str(error), str(file)) from None
    except OSError as error:
        if error.errno == errno.ELOOP and file.is_symlink():
            raise OSError(errno.ELOOP, "is a link, expected a file", str(file)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    return descriptor
