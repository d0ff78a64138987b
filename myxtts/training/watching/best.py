"""Tracks the best checkpoint by one metric, and decides on early stopping.

Knows no files and no trainer. A resumed run replays its metrics.jsonl and gets the same best as
before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from myxtts.config.config import JUDGING_METRICS, LOWER_IS_BETTER
from myxtts.config.schema import did_you_mean
from myxtts.errors import ConfigError

# A mel that a discriminator has sharpened is a little farther from the recording than a blurred one
# and sounds better: of checkpoints that differ by less than this the newest is best.
_AS_GOOD = {"validation_mel_distance": 0.02}


class BestCheckpoint:
    def __init__(self, metric: str, patience_evaluations: int | None = None) -> None:
        """`patience_evaluations`: stop after this many without improvement; None: never."""
        if metric not in JUDGING_METRICS:
            raise ConfigError(
                f"evaluation.best_metric: found '{metric}', allowed: {', '.join(JUDGING_METRICS)}"
                f"{did_you_mean(metric, JUDGING_METRICS)}"
            )
        self.metric = metric
        self.step: int | None = None
        self.value: float | None = None
        self._extreme: float | None = None
        self._patience = patience_evaluations
        self._without_improvement = 0

    def update(self, step: int, metrics: Mapping[str, float | None]) -> bool:
        """Whether this step is the best so far; metrics without this one are ignored."""
        value = metrics.get(self.metric)
        if value is None:
            return False
        is_better = math.isfinite(value) and self._is_better(value)
        if is_better:
            self._extreme = value
            self._without_improvement = 0
        else:
            self._without_improvement += 1
        if is_better or self._is_as_good(value):
            self.step, self.value = step, value
            return True
        return False

    @property
    def should_stop(self) -> bool:
        return self._patience is not None and self._without_improvement >= self._patience

    def _is_better(self, value: float) -> bool:
        if self._extreme is None:
            return True
        return value < self._extreme if LOWER_IS_BETTER[self.metric] else value > self._extreme

    def _is_as_good(self, value: float) -> bool:
        margin = _AS_GOOD.get(self.metric)
        return (
            margin is not None
            and self._extreme is not None
            and abs(value - self._extreme) <= margin
        )
