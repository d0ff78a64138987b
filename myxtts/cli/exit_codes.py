"""What a command's exit code says; 0 is done."""

# The command worked, and what it was asked is not so: errors found, something broken.
THE_ANSWER_IS_NO = 1
USER_MUST_CHANGE_SOMETHING = 2
INTERRUPTED = 130
