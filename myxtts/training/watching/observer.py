"""Who watches a run as it goes. No TensorFlow: an observer is there before it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from myxtts.data.opening import Corpus
    from myxtts.training.watching.report import RunReport


class Observer:
    """Looks away; the command line draws a bar. Each method may be overridden alone."""

    def on_phase(self, message: str) -> None: ...

    def on_notice(self, message: str) -> None: ...

    def on_prepare(self, part: str, done: int, total: int) -> None: ...

    def on_warm_up(self, done: int, total: int) -> None: ...

    def on_step(self, step: int, total: int, metrics: dict[str, float]) -> None: ...

    def on_evaluation(self, step: int, metrics: dict[str, float]) -> None: ...

    def on_measurement(self, step: int, values: dict[str, float]) -> None: ...

    def on_end(self, report: RunReport, corpus: Corpus) -> None: ...
