"""The errors that MyXTTS raises on purpose.

A message says what was found, where, what was expected and what to do, in one line:
the command line prints exactly that line and exits with code 2.
"""

_LONGEST_LINE = 1_000


class MyXTTSError(Exception):
    """Anything the user can act on. Only `myxtts.cli` catches it."""

    def __str__(self) -> str:
        """One line, and not a long one, whatever a message quotes from a file."""
        line = " ".join(super().__str__().splitlines())
        return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


class ConfigError(MyXTTSError):
    """A setting is unknown, of the wrong type, out of range or contradicts another."""


class DataError(MyXTTSError):
    """A corpus, an audio file or a text cannot be used as it is."""


class DeviceError(MyXTTSError):
    """A device that was asked for is not there or cannot be used as asked."""


class CheckpointError(MyXTTSError):
    """A run or checkpoint folder is missing, incomplete, corrupt or does not fit."""


class NonFiniteLossError(MyXTTSError):
    """Training met NaN or infinity and could not go on."""
