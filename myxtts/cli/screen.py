"""Standard output and standard error of a command, whatever is written to them and lies behind.

- Control characters in names and texts from files are shown as escapes; a terminal would obey them.
- Characters that the terminal's encoding does not have are replaced.
- A command may go on without them (`going_on_without_screen`): a full disk behind a log, a closed
  pipe or a terminal that is gone does not end a run.

rich draws with control characters of its own, so it writes through `TerminalOutput`.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from myxtts.wording import printable

_NAMES = {"stdout": "standard output", "stderr": "standard error"}


class Screen(io.TextIOBase):
    """One of the two streams."""

    def __init__(self, below: TextIO, name: str) -> None:
        self._below = below
        self._name = name
        self.may_fail = False
        self.problem: str | None = None
        """Why it cannot be written any more, if the command goes on without it."""

    def write(self, text: str) -> int:
        self.draw(printable(text))
        return len(text)

    def draw(self, text: str) -> None:
        """Writes text as it is."""
        with self._failures_borne():
            self._below.write(text)
            # At once: later there may be nobody left to tell that it failed.
            if self.may_fail:
                self._below.flush()

    def flush(self) -> None:
        with self._failures_borne():
            self._below.flush()

    def isatty(self) -> bool:
        return self._below.isatty()

    def fileno(self) -> int:
        return self._below.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._below.encoding

    @contextlib.contextmanager
    def _failures_borne(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self.may_fail:
                error.filename = error.filename or _NAMES[self._name]
                raise
            self._write_nowhere()
            if self.problem is None:
                self.problem = (
                    f"{_NAMES[self._name]} cannot be written ({error.strerror}); the run went on "
                    "without it"
                )
                sys.stderr.write(f"WARNING {self.problem}\n")

    def _write_nowhere(self) -> None:
        """What is still buffered, and what libraries write, would fail again and again."""
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._below.fileno())
            os.close(nowhere)


class TerminalOutput:
    """Standard output as it is at each moment, for what draws with control characters."""

    def write(self, text: str) -> int:
        stream = _standard_output()
        if isinstance(stream, Screen):
            stream.draw(text)
        elif stream is not None:  # a program may be started without
            stream.write(text)
        return len(text)

    def flush(self) -> None:
        stream = _standard_output()
        if stream is not None:
            stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(_standard_output(), name)


def _standard_output() -> Any:
    # While rich shows a live line, its own stand-in is there, which would write to itself.
    return getattr(sys.stdout, "rich_proxied_file", sys.stdout)


@contextlib.contextmanager
def careful_screen() -> Iterator[None]:
    """Puts a `Screen` in the place of both streams."""
    _open_missing_descriptors()
    before = {name: getattr(sys, name) for name in _NAMES}
    with contextlib.ExitStack() as stack:
        for name, stream in before.items():
            if isinstance(stream, io.TextIOWrapper):
                with contextlib.suppress(OSError):  # what is behind it may have changed
                    stream.reconfigure(errors="backslashreplace")
            if stream is None:
                stream = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
            setattr(sys, name, Screen(stream, name))
        try:
            yield
        finally:
            for name, stream in before.items():
                setattr(sys, name, stream)


def _open_missing_descriptors() -> None:
    """A program may be started without standard streams (`2>&-`).

    The next file that it opens would get the number of one, and in it what libraries write there.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # It takes the lowest number that is free: this one. Programs started from here need it.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


@contextlib.contextmanager
def going_on_without_screen() -> Iterator[None]:
    """Inside, a stream that cannot be written is given up instead of ending the command."""
    for screen in _screens():
        screen.may_fail = True
    yield


def problems_of_screen() -> list[str]:
    return [screen.problem for screen in _screens() if screen.problem is not None]


def _screens() -> list[Screen]:
    streams = (getattr(stream, "rich_proxied_file", stream) for stream in (sys.stdout, sys.stderr))
    return [stream for stream in streams if isinstance(stream, Screen)]
