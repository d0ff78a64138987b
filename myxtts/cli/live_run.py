"""The live view of a training run: one line of progress, metrics and messages above it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from myxtts.cli.console import Progress, clock_time, rate, say
from myxtts.training.watching.observer import Observer

if TYPE_CHECKING:
    from myxtts.training.watching.report import RunReport

# Evaluations and checkpoints in between should not make the ETA jump.
_SECONDS_OF_PACE = 600.0


class LiveRun(Observer):
    """Shows a run: a live line in a terminal, and a line of metrics at intervals."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress = Progress(print_line=say, seconds_of_pace=_SECONDS_OF_PACE, clock=clock)
        self._time_of_steps: Callable[[int], float] = float
        self._rate = ""
        self._has_metrics = False

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

    def on_training(self, time_of_steps: Callable[[int], float]) -> None:
        self._time_of_steps = time_of_steps

    def on_progress(self, step: int, total: int) -> None:
        self._progress.begin("step", "step")
        self._progress.update(step, total, self._time_of_steps, self._rate)

    def on_step(self, step: int, total: int, metrics: dict[str, float]) -> None:
        # Zero in the line that a killed run still owed its last checkpoint.
        seconds = metrics["step_seconds"] + metrics["data_wait_seconds"]
        self._rate = rate(1 / seconds, "step") if seconds else ""
        self.on_progress(step, total)
        if self._progress.is_line_due(now=not self._has_metrics or step == total):
            self._has_metrics = True
            left = self._progress.task.time_remaining
            eta = "" if left is None else clock_time(left)
            say(
                f"{_place(step, total)}  ETA {eta:>8}  loss {metrics['loss']:7.3f}  "
                f"useful {metrics['useful_utilisation']:4.0%}  {self._rate}"
            )

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
        measures = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
        say(f"step {step:,}  metrics: {measures}")

    def on_end(self, report: RunReport, next_command: str) -> None:
        from myxtts.training.describing import describe_end

        self._progress.stop()
        for line in describe_end(report, next_command):
            say(line)


def _place(step: int, total: int) -> str:
    """Format the step so that all lines of a run are aligned."""
    return f"step {step:>{len(f'{total:,}')},}/{total:,}"
