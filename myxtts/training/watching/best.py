"""Which checkpoint is the best so far, by one metric, and whether to go on.

Knows no files and no trainer. A resumed run tells it the lines of its metrics.jsonl again and has
the same best as before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from myxtts.config.metrics import JUDGING_METRICS, LOWER_IS_BETTER
from myxtts.config.names import did_you_mean
from myxtts.errors import ConfigError


class BestCheckpoint:
    def __init__(self, metric: str, patience_evaluations: int | None = None) -> None:
        """`patience_evaluations`: stop after so many without a better one; None: never."""
        if metric not in JUDGING_METRICS:
            raise ConfigError(
                f"evaluation.best_metric: found '{metric}', allowed: {', '.join(JUDGING_METRICS)}"
                f"{did_you_mean(metric, JUDGING_METRICS)}"
            )
        self.metric = metric
        self.step: int | None = None
        self.value: float | None = None
        self._patience = patience_evaluations
        self._without_a_better_one = 0

    def tell(self, step: int, metrics: Mapping[str, float | None]) -> bool:
        """Whether this step is the best so far; metrics without this one are no evaluation."""
        value = metrics.get(self.metric)
        if value is None:
            return False
        if math.isfinite(value) and (self.value is None or self._is_better(value)):
            self.step, self.value = step, value
            self._without_a_better_one = 0
            return True
        self._without_a_better_one += 1
        return False

    @property
    def should_stop(self) -> bool:
        return self._patience is not None and self._without_a_better_one >= self._patience

    def _is_better(self, value: float) -> bool:
        assert self.value is not None
        return value < self.value if LOWER_IS_BETTER[self.metric] else value > self.value
