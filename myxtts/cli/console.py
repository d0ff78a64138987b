"""Terminal output of the commands: messages, and progress drawn by rich.

Messages go to standard output, progress and warnings to standard error. Control characters in names
and texts from files are escaped, so that a terminal does not execute them.
"""

from __future__ import annotations

import codecs
import contextlib
import importlib.util
import io
import json
import logging
import os
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TextIO

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as Bar
from rich.table import Column
from rich.text import Text

from myxtts.errors import printable
from myxtts.training.report import Observer, RunReport, describe_end

# Without a terminal to redraw, print a line at this interval.
SECONDS_BETWEEN_LINES = 15.0
# A shorter time is too short to estimate the pace.
_MIN_SECONDS_OF_RATE = 0.1
# Evaluations and checkpoints in between should not make the ETA of a run jump.
_SECONDS_OF_PACE_OF_RUN = 600.0
_log = logging.getLogger(__name__)

# done, total
OnProgress = Callable[[int, int], None]


def say(message: str = "") -> None:
    """Print a message. A terminal gets whole words, and commands that can be copied."""
    message = printable(message)
    width = terminal_width()
    if width is not None:
        message = "\n".join(_wrapped(line, width) for line in message.split("\n"))
    print(message, flush=True)


def _wrapped(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    words = [line]
    if "myxtts " in line:
        with contextlib.suppress(ValueError):  # an apostrophe in a sentence
            words = shlex.split(line, posix=False)
        if " ".join(words) != line:
            return line
        lines = [words[0]]
        for word in words[1:]:
            if len(lines[-1]) + len(word) + len("  \\") < width:
                lines[-1] += f" {word}"
            else:
                lines.append(f"    {word}")
        return " \\\n".join(lines)
    return textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)


def say_aside(message: str) -> None:
    """Print to standard error, to keep a table or JSON on standard output intact."""
    if sys.stderr is not None:
        print(printable(message), file=sys.stderr, flush=True)


def say_json(content: Any) -> None:
    """Print an object that programs can parse in any output encoding."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    is_unicode = codecs.lookup(encoding).name.startswith("utf")
    print(printable(json.dumps(content, ensure_ascii=not is_unicode, indent=1)))


def terminal_width() -> int | None:
    """Return the columns of the terminal, or None if standard output is not one."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


class LogLines(logging.Handler):
    """Writes to the current standard error; a live display replaces it while it is shown."""

    def __init__(self, level: int = logging.INFO) -> None:
        super().__init__(level)
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        say_aside(self.format(record))


def rate(per_second: float, unit: str) -> str:
    if per_second < 1:
        return f"{1 / max(per_second, 1e-9):.1f} s/{unit}"
    return f"{per_second:.2f} {unit}s/s" if per_second < 10 else f"{per_second:,.0f} {unit}s/s"


def clock_time(seconds: float) -> str:
    """Format as 1:02:03, or 2:03 below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def pace(task: Task) -> str:
    """Describe how fast a task proceeds and how long it will take."""
    if task.total is None:
        return clock_time(task.elapsed or 0.0)
    is_known = task.speed is not None and (task.elapsed or 0.0) >= _MIN_SECONDS_OF_RATE
    eta = "" if task.time_remaining is None else f"ETA {clock_time(task.time_remaining)}"
    if task.fields["facts"]:
        return f"{eta}  {task.fields['facts']}"
    return f"{rate(task.speed or 0.0, task.fields['unit'])}  {eta}".rstrip() if is_known else ""


class _Pace(ProgressColumn):
    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        return Text(pace(task), no_wrap=True)


class Progress:
    """Work in stages: a live line in a terminal, lines at intervals elsewhere.

    `quiet` shows nothing. `seconds_of_pace` is what the ETA is averaged over.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        print_line: Callable[[str], None] = say_aside,
        seconds_of_pace: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        console = Console(stderr=True, highlight=False, emoji=False)
        # A notebook redraws with ipywidgets, and gets lines without.
        redraws = console.is_terminal and not console.is_dumb_terminal
        redraws |= console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
        is_live = redraws and not quiet
        self.prints_lines = not (is_live or quiet)
        self._print_line = print_line
        self._clock = clock
        self._last_line = clock()
        self._bar = Bar(
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=False)),
            BarColumn(bar_width=8),
            _Pace(table_column=Column(no_wrap=True)),
            console=console,
            transient=True,
            disable=not is_live,
            get_time=clock,
            speed_estimate_period=seconds_of_pace,
            refresh_per_second=4,
            redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
        )
        self._what = ""
        self.begin("starting", is_brief=True)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._bar.stop()

    def begin(self, what: str, unit: str = "", *, is_brief: bool = False) -> None:
        """Begin the next stage. A brief one is shown only in a terminal."""
        if what == self._what:
            return
        for task in self._bar.task_ids:
            self._bar.remove_task(task)
        self._what = what
        self._task = self._bar.add_task(printable(what), total=None, unit=unit, facts="")
        self._last_line = self._clock()
        if self.prints_lines and not unit and not is_brief:
            self._print_line(f"... {what}")

    def describe(self, what: str) -> None:
        """Change the description of the current stage."""
        self._bar.update(self._task, description=printable(what), facts="")

    def count(self, done: int, total: int) -> None:
        """Count the current stage."""
        self.update(done, total)
        if self.prints_lines and self.is_line_due():
            self._print_line("  ".join(filter(None, [self.task.description, pace(self.task)])))

    def update(
        self, done: int, total: int, time_of: Callable[[int], float] = float, facts: str = ""
    ) -> None:
        """Redraw; `time_of` weighs counts that do not take equally long."""
        self._bar.update(
            self._task,
            description=printable(f"{self._what} {done:,}/{total:,}"),
            completed=time_of(done),
            total=time_of(total),
            facts=facts,
        )

    def is_line_due(self, *, now: bool = False) -> bool:
        """Return whether an interval has passed, and start the next one if so."""
        is_due = now or self._clock() - self._last_line >= SECONDS_BETWEEN_LINES
        if is_due:
            self._last_line = self._clock()
        return is_due

    @property
    def task(self) -> Task:
        return self._bar.tasks[0]


@contextlib.contextmanager
def counting_bar(what: str, unit: str, *, quiet: bool = False) -> Iterator[OnProgress]:
    """Show a bar with count, rate and ETA; elsewhere lines on standard error."""
    with Progress(quiet=quiet) as progress:
        progress.begin(what, unit)
        yield progress.count


class Stream(io.TextIOBase):
    """Standard output or standard error; a command may continue without it.

    A full disk behind a log, a closed pipe or a closed terminal does not stop a training run.
    """

    def __init__(self, below: TextIO, name: str) -> None:
        self._below = below
        self._name = name
        self._is_lost = False
        self.may_fail = False

    def write(self, text: str) -> int:
        with self._failure_handled():
            self._below.write(text)
            if self.may_fail:  # buffered text would fail later, and at exit
                self._below.flush()
        return len(text)

    def flush(self) -> None:
        with self._failure_handled():
            self._below.flush()

    def isatty(self) -> bool:
        return self._below.isatty()

    def fileno(self) -> int:
        return self._below.fileno()

    @property
    def buffer(self) -> BinaryIO:
        return self._below.buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._below.encoding

    @contextlib.contextmanager
    def _failure_handled(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self.may_fail:
                error.filename = error.filename or self._name
                raise
            is_first, self._is_lost = not self._is_lost, True
            # What is still buffered, and what libraries write, would fail again at exit.
            with contextlib.suppress(OSError), open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), self._below.fileno())
            if is_first:
                _log.warning("%s cannot be written (%s)", self._name, error.strerror)


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """Put a `Stream` in the place of standard output and standard error."""
    for number in (0, 1, 2):
        # Otherwise a file opened later could take the place of a closed stream and receive its
        # output.
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError):
                stream.reconfigure(errors="backslashreplace")
    sys.stdout = before[0] and Stream(before[0], "standard output")
    sys.stderr = before[1] and Stream(before[1], "standard error")
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def continue_without_streams() -> None:
    """Drop a stream that cannot be written from now on, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Stream):
            stream.may_fail = True


class LiveRun(Observer):
    """Shows a run: a live line in a terminal, and a line of metrics at intervals.

    `paths` are the arguments that resuming needs again.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, paths: str = "") -> None:
        self._paths = paths
        self._progress = Progress(
            print_line=say, seconds_of_pace=_SECONDS_OF_PACE_OF_RUN, clock=clock
        )
        self._relative_time: Callable[[int], float] = float
        self._facts = ""

    def __enter__(self) -> LiveRun:
        self._progress.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def on_phase(self, message: str) -> None:
        self._progress.begin(message)

    def on_notice(self, message: str) -> None:
        say(message)

    def on_prepare(self, part: str, done: int, total: int) -> None:
        self._count(f"preparing {part} clips", "clip", done, total)

    def on_predicted_mels(self, done: int, total: int) -> None:
        self._count("predicting mels", "clip", done, total)

    def on_warm_up(self, done: int, total: int) -> None:
        self._count("warming up, shapes", "shape", done, total)

    def _count(self, what: str, unit: str, done: int, total: int) -> None:
        self._progress.begin(what, unit)
        self._progress.count(done, total)
        if self._progress.prints_lines and done in (0, total):
            say(f"... {what}: {done:,}/{total:,}")

    def on_training(self, relative_time: Callable[[int], float]) -> None:
        self._relative_time = relative_time

    def on_progress(self, step: int, total: int) -> None:
        self._progress.begin("step", "step")
        self._progress.update(step, total, self._relative_time, self._facts)

    def on_step(self, step: int, total: int, metrics: dict[str, float]) -> None:
        # Zero in the line of a checkpoint whose run was killed before logging it.
        seconds = metrics["step_seconds"] + metrics["data_wait_seconds"]
        speed = rate(1 / seconds, "step") if seconds else ""
        is_first = not self._facts
        loss, useful = metrics["loss"], metrics["useful_utilisation"]
        self._facts = f"loss {loss:.3f}  useful {useful:.0%}  {speed}"
        self.on_progress(step, total)
        if self._progress.is_line_due(now=is_first or step == total):
            left = self._progress.task.time_remaining
            eta = "" if left is None else clock_time(left)
            # Aligned with the other lines.
            place = f"step {step:>{len(f'{total:,}')},}/{total:,}"
            say(f"{place}  ETA {eta:>8}  loss {loss:7.3f}  useful {useful:4.0%}  {speed}")

    def on_evaluating(self, step: int) -> None:
        self._progress.describe(f"evaluating step {step:,}")

    def on_evaluation(self, step: int, metrics: dict[str, float]) -> None:
        parts = [
            f"{name.removeprefix('validation_').removesuffix('_loss')} {value:.3f}"
            for name, value in metrics.items()
            if name.endswith("_loss") and name != "validation_loss"
        ]
        loss = f"validation loss {metrics['validation_loss']:.3f}"
        say(f"step {step:,}  {loss}  ({' '.join(parts)})")

    def on_measurement(self, step: int, values: dict[str, float]) -> None:
        shown = {name: value for name, value in values.items() if not name.startswith("wer_")}
        measures = ", ".join(f"{name} {value:.3f}" for name, value in shown.items())
        if "wer_low" in values:
            measures += (
                f" (95 % interval of wer: {values['wer_low']:.2f}–{values['wer_high']:.2f}, "
                f"{values['wer_sentences']:.0f} sentences)"
            )
        say(f"step {step:,}  metrics: {measures}")

    def on_end(self, report: RunReport, next_command: str) -> None:
        self._progress.stop()
        for line in describe_end(report, next_command, self._paths):
            say(line)
