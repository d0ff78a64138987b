"""How a command ends that failed: what it prints and its exit code.

Tells what the user can mend, which is one line, from faults of the program.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback

from myxtts.cli.exit_codes import (
    NOBODY_READS_THE_OUTPUT,
    UNEXPECTED_ERROR,
    USER_MUST_CHANGE_SOMETHING,
)
from myxtts.errors import MyXTTSError

# Of disks, quotas and the limits of a process: writing to an open file raises them without a name.
_CONDITIONS_OF_THE_MACHINE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
}


def report_failure(error: Exception, command: str, *, show_traceback: bool) -> int:
    if isinstance(error, BrokenPipeError) and _nobody_reads_the_output():
        return NOBODY_READS_THE_OUTPUT
    line = _line_for_the_user(error)
    if show_traceback or line is None:
        traceback.print_exception(error)
    if line is not None:
        print(f"myxtts {command}: {line}", file=sys.stderr)
        return USER_MUST_CHANGE_SOMETHING
    print(
        f"myxtts {command}: unexpected error, perhaps a fault of MyXTTS; please report it "
        "with the lines above",
        file=sys.stderr,
    )
    return UNEXPECTED_ERROR


def _line_for_the_user(error: Exception) -> str | None:
    """None if it is nothing that the user could mend."""
    if isinstance(error, MyXTTSError):
        return str(error)
    if not isinstance(error, OSError):
        return None
    if isinstance(error.filename, str | bytes | os.PathLike):
        line = f"{os.fsdecode(error.filename)}: {error.strerror or error}"
    elif error.errno in _CONDITIONS_OF_THE_MACHINE:
        line = error.strerror or str(error)
    else:
        return None
    return " ".join(line.splitlines())


def _nobody_reads_the_output() -> bool:
    """Whether standard output is the pipe that broke, which another line shows."""
    try:
        print(flush=True)
    except BrokenPipeError:
        # Python flushes once more when it ends, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False
