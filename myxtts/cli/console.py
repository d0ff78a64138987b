"""Terminal output of the commands: lines, and a line of progress."""

from __future__ import annotations

import codecs
import contextlib
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, cast

from rich.console import Console
from rich.text import Text

from myxtts.cli.live_line import LiveLine
from myxtts.cli.progress_line import Stage, clock_time
from myxtts.cli.screen import TerminalOutput
from myxtts.wording import printable

# Without a terminal to redraw, print a line at this interval.
SECONDS_BETWEEN_LINES = 15.0

# done, total
OnProgress = Callable[[int, int], None]


_console = Console(
    highlight=False, soft_wrap=True, emoji=False, file=cast(IO[str], TerminalOutput())
)


def say(message: str = "") -> None:
    _console.print(printable(message), markup=False)


def say_json(content: Any) -> None:
    """An object for programs, which can be read again whatever the encoding of the output is."""
    print(json.dumps(content, ensure_ascii=not _has_all_characters(), indent=1))


def _has_all_characters() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return codecs.lookup(encoding).name.startswith("utf")


def is_terminal() -> bool:
    return _console.is_terminal and not _console.is_dumb_terminal


def terminal_width() -> int | None:
    """In columns; None where nobody looks at a terminal."""
    return _console.width if is_terminal() else None


class LogLines(logging.Handler):
    """Writes to what standard error is now: a live line puts itself in its place."""

    def __init__(self, level: int = logging.INFO) -> None:
        super().__init__(level)
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


class Progress:
    """Work in stages: a live line in a terminal, lines at intervals elsewhere.

    `quiet` shows nothing, for commands that print JSON.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        print_line: Callable[[str], None] = say,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._is_live = is_terminal() and not quiet
        self.prints_lines = not (self._is_live or quiet)
        self._print_line = print_line
        self.stage = Stage("starting", clock=clock)
        self._last_line = clock()
        self._line = LiveLine(_console, self._text)

    def __enter__(self) -> Progress:
        if self._is_live:
            self._line.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._line.stop()

    def begin(
        self, what: str, unit: str = "", details: Sequence[str] = (), *, is_brief: bool = False
    ) -> None:
        """The next stage, with nothing left over from the one before.

        A brief one is shown only in a terminal.
        """
        if what == self.stage.what:
            self.stage.details = details or self.stage.details
            return
        self.stage = Stage(what, unit, details=details, clock=self._clock)
        self._last_line = self._clock()
        if self.prints_lines and not unit and not is_brief:
            self._print_line(f"... {', '.join([what, *details])}")

    def count(self, done: int, total: int) -> None:
        self.stage.count(done, total)
        self.print_line_if_due()

    def print_line_if_due(self, *, is_due: bool = False) -> None:
        now = self._clock()
        if self.prints_lines and (is_due or now - self._last_line >= SECONDS_BETWEEN_LINES):
            self._last_line = now
            self._print_line(self.stage.as_line())

    def _text(self, width: int) -> Text:
        return self.stage.as_text(width, ascii_only=_console.options.ascii_only)


@contextlib.contextmanager
def counting_bar(what: str, unit: str, *, quiet: bool = False) -> Iterator[OnProgress]:
    """A bar with count, rate and remaining time; elsewhere lines on standard error."""
    with Progress(quiet=quiet, print_line=say_aside) as progress:
        progress.begin(what, unit)
        yield progress.count


def say_aside(message: str) -> None:
    """Where a table or JSON on standard output stays what it is."""
    print(message, file=sys.stderr, flush=True)


class TimedBar:
    """For work with a time limit: the current phase and the time left."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_phase(self, message: str) -> None:
        self._progress.begin(message)

    def on_prepare(self, part: str, done: int, total: int) -> None:
        self._progress.begin(f"preparing {part} clips", "clip")
        self._progress.count(done, total)

    def on_measurement(self, what: str, gone_seconds: float, seconds: float) -> None:
        left = clock_time(max(0, seconds - gone_seconds))
        self._progress.begin(what, details=[f"at most {left} left"])


@contextlib.contextmanager
def timed_bar(*, quiet: bool) -> Iterator[TimedBar]:
    with Progress(quiet=quiet) as progress:
        yield TimedBar(progress)
