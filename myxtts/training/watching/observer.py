"""Callbacks of a run. No TensorFlow: an observer exists before it is loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from myxtts.training.watching.report import RunReport


class Observer:
    """Does nothing; override the methods you need. The command line shows a progress bar."""

    def on_phase(self, message: str) -> None: ...

    def on_notice(self, message: str) -> None: ...

    def on_prepare(self, part: str, done: int, total: int) -> None: ...

    def on_predicted_mels(self, done: int, total: int) -> None: ...

    def on_warm_up(self, done: int, total: int) -> None: ...

    def on_training(self, time_of_steps: Callable[[int], float]) -> None:
        """Before the first step; later steps may take longer than earlier ones."""

    def on_progress(self, step: int, total: int) -> None:
        """After every step; `on_step` only when there are metrics of it."""

    def on_step(self, step: int, total: int, metrics: dict[str, float]) -> None: ...

    def on_evaluating(self, step: int) -> None: ...

    def on_evaluation(self, step: int, metrics: dict[str, float]) -> None: ...

    def on_measurement(self, step: int, values: dict[str, float]) -> None: ...

    def on_end(self, report: RunReport, next_command: str) -> None:
        """`next_command` is what to try with the result."""
