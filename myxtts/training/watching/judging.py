"""Keeps the best checkpoint of a run, by loss or by a metric of background evaluation, and warns
when the validation loss stops improving.

RUN/best is that checkpoint without its training state, for synthesis.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from myxtts.config.config import MEASURES, EvaluationConfig
from myxtts.errors import CheckpointError
from myxtts.runs.run_dir import RunDir
from myxtts.training.watching.best import BestCheckpoint
from myxtts.training.watching.observer import Observer
from myxtts.training.watching.plateau import LossWatch
from myxtts.training.watching.reporting import RunWriter

_log = logging.getLogger(__name__)

# How long a finished run waits for the evaluation of its last checkpoints.
_SECONDS_FOR_THE_LAST = 900


class Measured(Protocol):
    @property
    def step(self) -> int: ...

    @property
    def values(self) -> dict[str, float]: ...

    @property
    def snapshot(self) -> Path: ...


class Measurer(Protocol):
    """Evaluates the speech of checkpoints in the background."""

    @property
    def is_busy(self) -> bool: ...

    def start(self, step: int, checkpoint: Path) -> None: ...

    def poll(self) -> Sequence[Measured]: ...

    def wait(self, timeout_seconds: float | None = None) -> Sequence[Measured]: ...


class Judge:
    def __init__(
        self,
        run_dir: RunDir,
        evaluation: EvaluationConfig,
        writer: RunWriter,
        observer: Observer,
        measurer: Measurer | None,
    ) -> None:
        self._run_dir = run_dir
        self._settings = evaluation
        self._writer = writer
        self._observer = observer
        self._measurer = measurer
        self._best = self._remembered()
        self._watch = LossWatch()
        for line in run_dir.metric_lines():
            self._watch.update(line["step"], line)
        self._measure_again()

    @property
    def should_stop(self) -> bool:
        return self._best.should_stop

    @property
    def is_measuring(self) -> bool:
        return self._measurer is not None and self._measurer.is_busy

    def best(self) -> dict[str, Any] | None:
        """For the report."""
        best = self._best
        if best.step is None:
            return None
        return {"metric": best.metric, "step": best.step, "value": best.value}

    def advice(self) -> list[str]:
        """For the report: whether more training would help."""
        return [f"{self._watch.verdict.message}."] if self._watch.verdict else []

    def logged(self, step: int, metrics: dict[str, float]) -> None:
        """A line of metrics.jsonl was written."""
        verdict = self._watch.update(step, metrics)
        if verdict is not None:
            _log.warning("step %d: %s", step, verdict.message)

    def evaluated(
        self, step: int, losses: dict[str, float], saved: Callable[[], Path | None]
    ) -> None:
        """`saved` returns the checkpoint of this step, or None if it could not be written."""
        is_best = self._best.update(step, losses)
        is_measured = self._is_measured(step)
        checkpoint = saved() if is_best or is_measured else None
        if checkpoint is None:
            return
        if is_best:
            self._keep(checkpoint)
        if is_measured and self._measurer:
            with _warning_of_failure("the checkpoint cannot be evaluated"):
                self._measurer.start(step, checkpoint)

    def _is_measured(self, step: int) -> bool:
        every = self._settings.measure_every
        evaluation = -(-step // self._settings.evaluate_every)
        return bool(self._measurer and every and evaluation % every == 0)

    def _measure_again(self) -> None:
        """The newest checkpoint that was evaluated, if a kill cost the run its measures."""
        measured = {line["step"] for line in self._run_dir.measure_lines()}
        evaluated = {
            line["step"]: line
            for line in self._run_dir.metric_lines()
            if "validation_loss" in line and self._is_measured(line["step"])
        }
        if self._measurer is None or not evaluated or max(evaluated) in measured:
            return
        step = max(evaluated)
        if self._run_dir.has_checkpoint(step):
            with _warning_of_failure("the checkpoint cannot be evaluated"):
                self._measurer.start(step, self._run_dir.checkpoint_of(step))

    def collect(self) -> None:
        """Results that arrived meanwhile."""
        if self._measurer is not None:
            with _warning_of_failure("evaluation continues with the next checkpoint"):
                self._take(self._measurer.poll())

    def finish(self, is_interrupted: Callable[[], bool]) -> None:
        """Waits for the last results at the end of a run."""
        if self._measurer is None or not self._measurer.is_busy or is_interrupted():
            return
        self._observer.on_phase("waiting for the last evaluation")
        for _ in range(_SECONDS_FOR_THE_LAST):
            if is_interrupted() or not self._measurer.is_busy:
                return
            with _warning_of_failure("the last evaluation is lost"):
                self._take(self._measurer.wait(1.0))

    def _take(self, measured: Iterable[Measured]) -> None:
        for result in measured:
            self._writer.write_measures(result.step, result.values)
            self._observer.on_measurement(result.step, result.values)
            if self._best.metric in MEASURES and self._best.metric not in result.values:
                _log.warning("step %d: no value for %s", result.step, self._best.metric)
            if self._best.update(result.step, result.values):
                self._keep(result.snapshot)

    def _keep(self, checkpoint: Path) -> None:
        with _warning_of_failure("the best checkpoint is not saved separately"):
            self._run_dir.keep_as_best(checkpoint)

    def _remembered(self) -> BestCheckpoint:
        """The best of a resumed run by its logs, as far as it has kept it."""
        best = self._none_yet()
        lines = [*self._run_dir.metric_lines(), *self._run_dir.measure_lines()]
        for line in lines:
            best.update(line["step"], line)
        kept = self._step_kept()
        if best.step is None or best.step == kept:
            return best
        # A kill before the line of its evaluation: that step is evaluated again, with the same
        # result.
        if kept is not None and kept > max(line["step"] for line in lines):
            return best
        values = [line.get(best.metric) for line in lines if line["step"] == kept]
        value = next((value for value in values if value is not None), None)
        if kept is not None and value is not None:
            _log.warning(
                "the best checkpoint so far by %s, step %d, could not be kept: continuing with "
                "step %d",
                *(best.metric, best.step, kept),
            )
            best.step, best.value = kept, value
            return best
        _log.warning(
            "%s is not the best checkpoint so far by %s: starting over from here",
            self._run_dir.best.name,
            best.metric,
        )
        return self._none_yet()

    def _none_yet(self) -> BestCheckpoint:
        metric = self._settings.best_metric
        assert metric is not None, "the trainer chooses one"
        return BestCheckpoint(metric, self._settings.early_stopping_evaluations)

    def _step_kept(self) -> int | None:
        try:
            return self._run_dir.best_checkpoint().info.step
        except CheckpointError:
            return None


@contextlib.contextmanager
def _warning_of_failure(consequence: str) -> Iterator[None]:
    """A full disk must not end the run because of this."""
    try:
        yield
    except (CheckpointError, OSError) as error:
        _log.warning("%s: %s", error, consequence)
