"""Exit codes of the commands; 0 is success."""

from __future__ import annotations

import signal

# The command worked and its check failed: `validate` found errors, `doctor` a broken part.
CHECK_FAILED = 1
USER_ERROR = 2
# A bug in the program: EX_SOFTWARE of sysexits.h.
UNEXPECTED_ERROR = 70
# 128 + SIGINT: Ctrl-C. SIGTERM gives 143.
INTERRUPTED = 130
# 128 + SIGPIPE, as the shell reports it for `myxtts stats ... | head`.
BROKEN_PIPE = 141


def exit_code_of_signal(name: str) -> int:
    """As the shell reports a process that the signal ended."""
    return 128 + signal.Signals[name]
