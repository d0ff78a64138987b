"""The live view of a training run: one line of progress, messages above it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from myxtts.cli.console import Progress, say
from myxtts.cli.screen import problems_of_screen
from myxtts.training.watching.observer import Observer

if TYPE_CHECKING:
    from myxtts.training.watching.report import RunReport


class LiveRun(Observer):
    """Shows a run: a live line in a terminal, lines elsewhere."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._progress = Progress(clock=clock)
        self._time_of_steps: Callable[[int], float] = float

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
        if self._progress.prints_lines and done == 0:
            say("... predicting mels")
        self._count("predicting mels", "clip", done, total)

    def on_warm_up(self, done: int, total: int) -> None:
        if self._progress.prints_lines and done == 0:
            say("... warming up the training step")
        self._count("warming up the training step, shapes", "shape", done, total)

    def _count(self, what: str, unit: str, done: int, total: int) -> None:
        self._progress.begin(what, unit)
        self._progress.count(done, total)
        if self._progress.prints_lines and done == total:
            say(f"... {what}: {done}")

    def on_training(self, time_of_steps: Callable[[int], float]) -> None:
        self._time_of_steps = time_of_steps

    def on_progress(self, step: int, total: int) -> None:
        self._progress.begin("step", "step")
        self._progress.stage.resume()
        self._progress.stage.count(step, total, self._time_of_steps)

    def on_step(self, step: int, total: int, metrics: dict[str, float]) -> None:
        self._progress.begin("step", "step")
        stage = self._progress.stage
        if stage.total is None:
            # What a killed run still owed its last checkpoint comes before any step.
            stage.count(step, total, self._time_of_steps)
        is_first = not stage.details
        stage.details = [
            f"loss {metrics['loss']:.3f}",
            f"useful {metrics['useful_utilisation']:.0%}",
            _parts(metrics),
            f"data wait {metrics['data_wait_share']:.1%}",
        ]
        self._progress.print_line_if_due(is_due=is_first or step == total)

    def on_evaluating(self, step: int) -> None:
        self._progress.stage.pause("evaluating")

    def on_evaluation(self, step: int, metrics: dict[str, float]) -> None:
        parts = _parts(metrics, "validation_")
        say(f"step {step:,}  validation loss {metrics['validation_loss']:.3f}  {parts}")

    def on_measurement(self, step: int, values: dict[str, float]) -> None:
        measures = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
        say(f"step {step:,}  metrics: {measures}")

    def problems(self) -> list[str]:
        return problems_of_screen()

    def on_end(self, report: RunReport, next_command: str) -> None:
        from myxtts.training.describing import describe_end

        self._progress.stop()
        for line in describe_end(report, next_command):
            say(line)


def _parts(metrics: Mapping[str, float], prefix: str = "") -> str:
    """The parts of the loss, whatever the task calls them."""
    parts = [
        f"{name.removeprefix(prefix).removesuffix('_loss')} {value:.3f}"
        for name, value in metrics.items()
        if name.startswith(prefix) and name.endswith("_loss") and name != f"{prefix}loss"
    ]
    return f"({' '.join(parts)})"
