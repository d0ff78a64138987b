"""The time account of a run, and its metrics over a logging interval and over the whole run.

Every second belongs to exactly one bucket. An interval may begin before a checkpoint and end after
the run was resumed from it.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from myxtts.runs.checkpoint import MetricsSoFar

if TYPE_CHECKING:
    from myxtts.training.step import StepResult
    from myxtts.training.task import Task

BUCKETS = (
    "start_up",
    "compile",
    "data_wait",
    "compute",
    "host",
    "evaluation",
    "checkpoint",
)


class TimeAccount:
    """A clock that always runs for one bucket; `spending` switches it temporarily.

    All other time goes to the bucket set by `settle`, so the buckets add up to the wall time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds = dict.fromkeys(BUCKETS, 0.0)
        self._bucket = "start_up"
        self._since = clock()

    @contextlib.contextmanager
    def spending(self, bucket: str) -> Iterator[None]:
        before = self._bucket
        self._switch(bucket)
        try:
            yield
        finally:
            self._switch(before)

    def settle(self, bucket: str) -> None:
        """Put time outside `spending` into this bucket from now on."""
        self._switch(bucket)

    def seconds(self) -> dict[str, float]:
        """Return the seconds per bucket so far, and their sum as `wall`."""
        self._switch(self._bucket)
        return {**self._seconds, "wall": sum(self._seconds.values())}

    def _switch(self, bucket: str) -> None:
        if bucket not in self._seconds:
            raise KeyError(bucket)
        now = self._clock()
        self._seconds[self._bucket] += now - self._since
        self._bucket, self._since = bucket, now


def shares(seconds: dict[str, float]) -> dict[str, float]:
    """Return fractions of the wall time, by bucket."""
    wall = max(seconds["wall"], 1e-9)
    return {bucket: seconds[bucket] / wall for bucket in BUCKETS}


def stepping_seconds(seconds: dict[str, float]) -> float:
    """Return the time of the steps, without start-up, evaluations and checkpoints."""
    return seconds["compute"] + seconds["data_wait"] + seconds["host"]


def overheads(seconds: dict[str, float], valid_work_ratio: float) -> dict[str, float]:
    """Return all but useful computation, as fractions of the wall time, largest first."""
    lost = shares(seconds)
    lost["padding"] = lost.pop("compute") * (1.0 - valid_work_ratio)
    return dict(sorted(lost.items(), key=lambda item: -item[1]))


_OVERHEADS = {
    "start_up": ("start-up", "It happens once, so a longer run is affected less"),
    "compile": ("tracing and compiling", "It happens once, so a longer run is affected less"),
    "host": ("logging and other host work", "Raise saving.log_every"),
    "evaluation": ("evaluation", "Raise evaluation.evaluate_every"),
    "checkpoint": ("saving checkpoints", "Raise saving.save_every"),
    "padding": ("padding", "Raise data.shape_count, so that shapes fit the clips better"),
}


def advice(
    seconds: dict[str, float],
    valid_work_ratio: float,
    remedy_for_waiting: str,
    compilations_after_warmup: int,
) -> list[str]:
    """Name the largest overhead and what to change about it."""
    largest, share = next(iter(overheads(seconds, valid_work_ratio).items()))
    if largest == "compile" and compilations_after_warmup:
        return [
            f"Most time not spent training: compiling ({share:.1%}). The step was compiled "
            f"{compilations_after_warmup} times after warm-up. With data.batching bucketed or "
            "fixed it is compiled before the first step only."
        ]
    waiting = "waiting for data", remedy_for_waiting[:1].upper() + remedy_for_waiting[1:]
    name, remedy = _OVERHEADS.get(largest, waiting)
    return [f"Most time not spent training: {name} ({share:.1%}). {remedy}."]


def numbers_or_null(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Replace non-finite values by null, since JSON has no NaN."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


class RunMetrics:
    def __init__(self, task: Task, account: TimeAccount) -> None:
        self._task = task
        self._account = account
        self._steps = 0
        self._sums: dict[str, float] = {}
        self._seconds_before = self._seconds_now = account.seconds()
        # Real and computed: frames, and multiplications in the model.
        self._frames = np.zeros(2)
        self._interval_frames = np.zeros(2)
        self._work = np.zeros(2)
        self._finished: MetricsSoFar | None = None

    def add(self, batch: Any, result: StepResult) -> None:
        values = {
            "loss": float(result.loss),
            **{f"{name}_loss": float(part) for name, part in result.parts._asdict().items()},
            "gradient_norm": float(result.gradient_norm),
            "learning_rate": float(result.learning_rate),
        }
        self._steps += 1
        self._sums = {name: self._sums.get(name, 0.0) + value for name, value in values.items()}
        work = self._task.work_of(batch)
        self._interval_frames += (work.real_frames, work.computed_frames)
        self._work += (work.real_multiplications, work.computed_multiplications)

    def so_far(self) -> MetricsSoFar:
        """Return everything but the times, for a checkpoint.

        Until the next step these are the metrics of the finished interval, whose line may be lost.
        """
        return self._finished if self._finished and not self._steps else self._present()

    def _present(self) -> MetricsSoFar:
        return MetricsSoFar(
            steps=self._steps,
            sums=numbers_or_null(self._sums),
            interval_frames=self._interval_frames.tolist(),
            frames=self._frames.tolist(),
            work=self._work.tolist(),
        )

    def resume_from(self, before: MetricsSoFar, *, is_logged: bool) -> None:
        """Continue a run; `is_logged` if its interval has its line already."""
        self._frames = np.array(before.frames)
        self._work = np.array(before.work)
        self._interval_frames = np.array(before.interval_frames)
        self._steps = before.steps
        self._sums = {
            name: math.nan if total is None else total for name, total in before.sums.items()
        }
        if is_logged:
            self.begin_interval()

    def means(self) -> dict[str, Any]:
        """Return the metrics of the present interval."""
        seconds = self._seconds_now = self._account.seconds()
        spent = {name: seconds[name] - self._seconds_before[name] for name in seconds}
        steps = max(1, self._steps)
        metrics: dict[str, Any] = {"time": time.time()}
        metrics |= {name: total / steps for name, total in self._sums.items()}
        metrics["step_seconds"] = (spent["compute"] + spent["compile"]) / steps
        metrics["data_wait_seconds"] = spent["data_wait"] / steps
        metrics["valid_frame_ratio"] = _ratio(self._interval_frames)
        metrics["useful_utilisation"] = self.useful_utilisation
        metrics["steady_utilisation"] = self.steady_utilisation
        return metrics | {f"{bucket}_share": share for bucket, share in shares(spent).items()}

    def begin_interval(self) -> None:
        """Begin the next interval, after the line of the present one is written.

        Work done after its means were computed, such as an evaluation, counts in the next line.
        """
        self._finished = self._present()
        self._frames = self._frames + self._interval_frames
        self._interval_frames = np.zeros(2)
        self._steps, self._sums = 0, {}
        self._seconds_before = self._seconds_now

    @property
    def valid_frame_ratio(self) -> float:
        return _ratio(self._frames + self._interval_frames)

    @property
    def valid_work_ratio(self) -> float:
        return _ratio(self._work)

    @property
    def useful_utilisation(self) -> float:
        return shares(self._account.seconds())["compute"] * self.valid_work_ratio

    @property
    def steady_utilisation(self) -> float:
        """The same over the steps alone, without start-up, evaluations and checkpoints."""
        seconds = self._account.seconds()
        return seconds["compute"] / max(stepping_seconds(seconds), 1e-9) * self.valid_work_ratio


def _ratio(real_and_computed: Any) -> float:
    real, computed = real_and_computed
    return float(real / computed) if computed else 1.0
