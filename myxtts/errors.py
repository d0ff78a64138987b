"""The errors that MyXTTS raises on purpose.

A message is one line: what was found, where, what was expected and what to do.
The command line prints exactly that line and exits with code 2.
"""

from myxtts.wording import printable

_LONGEST_LINE = 1_000


class MyXTTSError(Exception):
    """Anything the user can fix. Only `myxtts.cli` catches it."""

    def __str__(self) -> str:
        """One line of limited length, whatever the message quotes from a file."""
        line = printable(" ".join(super().__str__().splitlines()))
        return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


class ConfigError(MyXTTSError):
    """A setting is unknown, has the wrong type, is out of range or contradicts another."""


class DataError(MyXTTSError):
    """A corpus, an audio file or a text cannot be used as it is."""


class DeviceError(MyXTTSError):
    """A requested device does not exist or cannot be used as requested."""


class CheckpointError(MyXTTSError):
    """A run or checkpoint folder is missing, incomplete, corrupt or incompatible."""


class NonFiniteLossError(MyXTTSError):
    """Training hit NaN or infinity and could not recover."""
