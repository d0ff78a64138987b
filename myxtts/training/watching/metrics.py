"""Means over a logging interval and over the whole run."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from myxtts.training.step import StepResult
from myxtts.training.task import Task
from myxtts.training.watching.accounting import TimeAccount, shares, steady_compute_share


class RunMetrics:
    def __init__(self, task: Task, account: TimeAccount) -> None:
        self._task = task
        self._account = account
        self._interval: list[dict[str, float]] = []
        self._seconds_before = account.seconds()
        # Real and computed: frames, and multiplications in the model.
        self._frames = np.zeros(2)
        self._interval_frames = np.zeros(2)
        self._work = np.zeros(2)

    def add(self, batch: Any, result: StepResult) -> None:
        values = {
            "loss": float(result.loss),
            **{f"{name}_loss": float(part) for name, part in result.parts._asdict().items()},
            "gradient_norm": float(result.gradient_norm),
            "learning_rate": float(result.learning_rate),
        }
        self._interval.append(values)
        work = self._task.work_of(batch)
        self._interval_frames += (work.real_frames, work.computed_frames)
        self._work += (work.real_multiplications, work.computed_multiplications)

    def flush(self) -> dict[str, Any]:
        """Means since the last flush."""
        seconds = self._account.seconds()
        spent = {name: seconds[name] - self._seconds_before[name] for name in seconds}
        steps = max(1, len(self._interval))
        metrics: dict[str, Any] = {"time": time.time()}
        for name in self._interval[0] if self._interval else ():
            metrics[name] = float(np.mean([values[name] for values in self._interval]))
        metrics["step_seconds"] = (spent["compute"] + spent["compile"]) / steps
        metrics["data_wait_seconds"] = spent["data_wait"] / steps
        metrics["valid_frame_ratio"] = _ratio(self._interval_frames)
        metrics["useful_utilisation"] = self.useful_utilisation
        metrics["steady_utilisation"] = self.steady_utilisation
        metrics |= {f"{bucket}_share": share for bucket, share in shares(spent).items()}
        self._frames += self._interval_frames
        self._interval_frames = np.zeros(2)
        self._interval = []
        self._seconds_before = seconds
        return metrics

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
