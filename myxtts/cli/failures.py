"""What a failed command prints, and its exit code.

Errors that the user can fix are one line; bugs get a traceback.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback

from myxtts.cli.console import say_aside
from myxtts.cli.exit_codes import (
    BROKEN_PIPE,
    UNEXPECTED_ERROR,
    USER_ERROR,
)
from myxtts.errors import MyXTTSError

# Full disks, quotas and process limits: writing to an open file raises these without a file name.
_MACHINE_LIMITS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
}


def report_failure(error: Exception, command: str, *, show_traceback: bool) -> int:
    if isinstance(error, BrokenPipeError) and _stdout_is_closed():
        return BROKEN_PIPE
    line = _user_message(error)
    if show_traceback or line is None:
        traceback.print_exception(error)
    if line is not None:
        say_aside(f"myxtts {command}: {line}")
        return USER_ERROR
    say_aside(
        f"myxtts {command}: unexpected error, probably a bug in MyXTTS; please report it with "
        "the traceback above"
    )
    return UNEXPECTED_ERROR


def _user_message(error: Exception) -> str | None:
    """None if the user could not fix it."""
    if isinstance(error, MyXTTSError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory; end other programs, or lower data.batch_size or the model's size"
    if not isinstance(error, OSError):
        return None
    if isinstance(error.filename, str | bytes | os.PathLike):
        line = f"{os.fsdecode(error.filename)}: {error.strerror or error}"
    elif error.errno in _MACHINE_LIMITS:
        line = error.strerror or str(error)
    else:
        return None
    return " ".join(line.splitlines())


def _stdout_is_closed() -> bool:
    """Whether standard output is the broken pipe; writing one more line shows it."""
    try:
        print(flush=True)
    except BrokenPipeError:
        # Python flushes standard output again at exit and would print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False
