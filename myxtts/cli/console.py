"""Terminal output of the commands: lines, progress bars and the live view of a run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from myxtts.training.watching.observer import Observer

if TYPE_CHECKING:
    from myxtts.training.watching.report import RunReport

_console = Console(highlight=False, soft_wrap=True, emoji=False)
# Without a terminal to redraw, print a line at this interval.
_SECONDS_BETWEEN_LINES = 15.0


def say(message: str = "") -> None:
    _console.print(message, markup=False)


@contextlib.contextmanager
def counting_bar(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """A bar with count, rate and remaining time; it appears at the first call."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=_console,
        disable=not _console.is_terminal,
    ) as progress:
        task = progress.add_task(what, total=None, rate="", visible=False)
        started = time.monotonic()

        def show(done: int, total: int) -> None:
            rate = done / max(time.monotonic() - started, 1e-6)
            shown = f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"
            progress.update(
                task, completed=done, total=total, rate=f"{shown} {unit}/s", visible=True
            )

        yield show


class LiveRun(Observer):
    """Shows a run: a live bar in a terminal, lines elsewhere."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            TextColumn("ETA"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=_console,
            disable=not _console.is_terminal,
        )
        self._task = self._progress.add_task("start", total=None, state="")
        self._last_line = float("-inf")
        self._last_step: tuple[float, int] | None = None
        self._rate = 0.0

    def __enter__(self) -> LiveRun:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def on_phase(self, message: str) -> None:
        self._progress.update(self._task, description=message)
        if not _console.is_terminal:
            say(f"... {message}")

    def on_notice(self, message: str) -> None:
        say(message)

    def on_prepare(self, part: str, done: int, total: int) -> None:
        what = f"preparing {part} clips"
        self._progress.update(self._task, description=what, completed=done, total=total)
        if not _console.is_terminal and done == total:
            say(f"... {what}: {done}")

    def on_warm_up(self, done: int, total: int) -> None:
        what = "warming up the training step, shape"
        self._progress.update(self._task, description=what, completed=done, total=total)
        if not _console.is_terminal:
            say(f"... {what} {done}/{total}")

    def on_step(self, step: int, total: int, metrics: dict[str, float]) -> None:
        now = time.monotonic()
        if self._last_step is not None:
            then, step_then = self._last_step
            rate = (step - step_then) / max(now - then, 1e-6)
            self._rate = rate if not self._rate else 0.8 * self._rate + 0.2 * rate
        self._last_step = (now, step)
        speed = f"{self._rate:.2f} steps/s  " if self._rate else ""
        state = (
            f"{_losses(metrics)}  "
            f"{speed}useful {metrics['useful_utilisation']:.0%}, "
            f"data wait {metrics['data_wait_share']:.1%}"
        )
        self._progress.update(
            self._task, description="training", completed=step, total=total, state=state
        )
        due = now - self._last_line >= _SECONDS_BETWEEN_LINES or step == total
        if not _console.is_terminal and due:
            self._last_line = now
            say(f"step {step:>6}/{total}  {state}{self._time_left(total - step)}")

    def _time_left(self, steps: int) -> str:
        if not self._rate:
            return ""
        minutes, seconds = divmod(round(steps / self._rate), 60)
        return f"  ETA {minutes}:{seconds:02d}"

    def on_measurement(self, step: int, values: dict[str, float]) -> None:
        measures = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
        say(f"step {step:>6}  metrics: {measures}")

    def on_evaluation(self, step: int, metrics: dict[str, float]) -> None:
        say(f"step {step:>6}  {_losses(metrics, 'validation_')}")

    def on_end(self, report: RunReport, next_command: str) -> None:
        from myxtts.training.describing import describe_end

        self._progress.stop()
        for line in describe_end(report, next_command):
            say(line)


def _losses(metrics: Mapping[str, float], prefix: str = "") -> str:
    """The loss and its parts, whatever the task calls them."""
    parts = [
        f"{name.removeprefix(prefix).removesuffix('_loss')} {value:.3f}"
        for name, value in metrics.items()
        if name.startswith(prefix) and name.endswith("_loss") and name != f"{prefix}loss"
    ]
    return f"{prefix.replace('_', ' ')}loss {metrics[f'{prefix}loss']:.3f} ({' '.join(parts)})"


class TimedBar:
    """For work with a time limit: the current phase and the time left."""

    def __init__(self, progress: Progress, *, quiet: bool) -> None:
        self._progress = progress
        self._prints_lines = not (quiet or _console.is_terminal)
        self._task = progress.add_task("start", total=None, left="")
        self._last = ""

    def on_phase(self, message: str) -> None:
        self._progress.update(self._task, description=message)
        if self._prints_lines:
            say(f"... {message}")

    def on_prepare(self, part: str, done: int, total: int) -> None:
        what = f"preparing {part} clips"
        self._progress.update(self._task, description=what, completed=done, total=total)
        if self._prints_lines and done == total:
            say(f"... {what}: {done}")

    def on_measurement(self, what: str, gone_seconds: float, seconds: float) -> None:
        minutes, rest = divmod(max(0, round(seconds - gone_seconds)), 60)
        left = f"ETA at most {minutes}:{rest:02d}"
        self._progress.update(
            self._task,
            description=what,
            completed=min(gone_seconds, seconds),
            total=seconds,
            left=left,
        )
        if self._prints_lines and what != self._last:
            say(f"... {what}, {left}")
        self._last = what


@contextlib.contextmanager
def timed_bar(*, quiet: bool) -> Iterator[TimedBar]:
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[left]}"),
        console=_console,
        disable=quiet or not _console.is_terminal,
    ) as progress:
        yield TimedBar(progress, quiet=quiet)
