"""What a command's exit code says; 0 is done."""

# The command worked, and what it was asked is not so: errors found, something broken.
THE_ANSWER_IS_NO = 1
USER_MUST_CHANGE_SOMETHING = 2
# A fault of the program itself: EX_SOFTWARE of sysexits.h.
UNEXPECTED_ERROR = 70
INTERRUPTED = 130
# What the shell shows for a program that SIGPIPE ended, as in `myxtts stats ... | head`.
NOBODY_READS_THE_OUTPUT = 141
