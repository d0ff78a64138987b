"""Keeps the best checkpoint of a run: by losses at once, by measures when they are there.

RUN/best is that checkpoint without its training state: it can be spoken with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from myxtts.config.config import TrainingConfig
from myxtts.training.best import BestCheckpoint
from myxtts.training.reporting import Observer, RunWriter, read_lines
from myxtts.training.snapshots import take_snapshot

BEST = "best"
# The last checkpoints are measured when the run is over; it waits no longer for them.
_SECONDS_FOR_THE_LAST = 900.0


class Measured(Protocol):
    @property
    def step(self) -> int: ...

    @property
    def values(self) -> dict[str, float]: ...

    @property
    def snapshot(self) -> Path: ...


class Measurer(Protocol):
    """Measures how checkpoints speak, beside the run."""

    @property
    def is_busy(self) -> bool: ...

    def start(self, step: int, checkpoint: Path) -> None: ...

    def poll(self) -> Sequence[Measured]: ...

    def wait(self, timeout_seconds: float | None = None) -> Sequence[Measured]: ...


class Judge:
    def __init__(
        self,
        run_dir: Path,
        training: TrainingConfig,
        writer: RunWriter,
        observer: Observer,
        measurer: Measurer | None,
    ) -> None:
        self._run_dir = run_dir
        self._training = training
        self._writer = writer
        self._observer = observer
        self._measurer = measurer
        self._best = BestCheckpoint(training.best_metric, training.early_stopping_evaluations)
        # A resumed run has the best that it had before.
        for file in ("metrics.jsonl", "measures.jsonl"):
            for line in read_lines(run_dir / file):
                self._best.tell(line["step"], line)

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

    def evaluated(
        self, step: int, losses: dict[str, float], saved: Callable[[], Path | None]
    ) -> None:
        """`saved` gives the checkpoint of this step, or None where it could not be written."""
        is_best = self._best.tell(step, losses)
        evaluation = -(-step // self._training.evaluate_every)
        every = self._training.measure_every
        is_measured = self._measurer and every and evaluation % every == 0
        checkpoint = saved() if is_best or is_measured else None
        if checkpoint is None:
            return
        if is_best:
            take_snapshot(checkpoint, self._run_dir / BEST)
        if is_measured and self._measurer:
            self._measurer.start(step, checkpoint)

    def collect(self) -> None:
        """What was measured meanwhile."""
        if self._measurer is not None:
            self._take(self._measurer.poll())

    def finish(self) -> None:
        """What is still being measured when the run is over."""
        if self._measurer is not None and self._measurer.is_busy:
            self._observer.on_phase("waiting for the last measurement")
            self._take(self._measurer.wait(_SECONDS_FOR_THE_LAST))

    def _take(self, measured: Iterable[Measured]) -> None:
        for result in measured:
            self._writer.write_measures(result.step, result.values)
            self._observer.on_measurement(result.step, result.values)
            if self._best.tell(result.step, result.values):
                take_snapshot(result.snapshot, self._run_dir / BEST)
