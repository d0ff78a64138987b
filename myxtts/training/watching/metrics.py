"""Means over a logging interval and over the whole run.

An interval may begin before a checkpoint and end after the run was resumed from it.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from myxtts.runs.checkpoint import MetricsSoFar
from myxtts.training.step import StepResult
from myxtts.training.task import Task
from myxtts.training.watching.accounting import TimeAccount, shares, steady_compute_share
from myxtts.training.watching.reporting import numbers_or_null


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
        """Everything but the times: for a checkpoint.

        Until the next step it is that of the finished interval, whose line may be lost.
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

    def go_on_from(self, before: MetricsSoFar, *, is_logged: bool) -> None:
        """Continues a run; `is_logged` if its interval has its line already."""
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
        """Of the present interval."""
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
        """The line of the present one is written.

        What was done since its means were taken, such as an evaluation, is in the next line.
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
        return steady_compute_share(self._account.seconds()) * self.valid_work_ratio


def _ratio(real_and_computed: Any) -> float:
    real, computed = real_and_computed
    return float(real / computed) if computed else 1.0
