"""Exit codes of the commands; 0 is success."""

from __future__ import annotations

import signal

from myxtts.training.interruption import exit_code_of_signal

# The command worked and its check failed: `validate` found errors, `doctor` a broken part.
CHECK_FAILED = 1
USER_ERROR = 2
# A bug in the program: EX_SOFTWARE of sysexits.h.
UNEXPECTED_ERROR = 70
# Ctrl-C.
INTERRUPTED = exit_code_of_signal(signal.SIGINT)
# The reader is gone, as in `myxtts stats ... | head`.
BROKEN_PIPE = exit_code_of_signal(signal.SIGPIPE)
