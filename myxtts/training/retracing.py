"""Counts how often the step is traced and compiled, and warns when it happens again."""

from __future__ import annotations

import logging
from typing import Any

_log = logging.getLogger(__name__)

Shape = tuple[int, int, int]


class RetracingMonitor:
    """Watches one compiled function.

    Traces are TensorFlow's own count. XLA compiles once for each shape it meets, so with XLA on
    its compilations are the distinct shapes; with XLA off there are none.
    """

    def __init__(self, compiled_step: Any, xla: bool, declared: tuple[Shape, ...]) -> None:
        self._compiled_step = compiled_step
        self._xla = xla
        self._declared = set(declared)
        self._met: set[Shape] = set()
        self._traces_at_start = self.traces
        self.compilations_after_warmup = 0

    @property
    def traces(self) -> int:
        return int(self._compiled_step.experimental_get_tracing_count())

    @property
    def compilations(self) -> int:
        return len(self._met) if self._xla else 0

    def is_new(self, shape: Shape) -> bool:
        return shape not in self._met

    def check(self, step: int, shape: Shape) -> None:
        """To be called after each step with the shape of its batch."""
        if self._xla and shape not in self._met and shape not in self._declared:
            self._warn(step, shape, "a shape that was not declared", len(self._met) + 1)
        self._met.add(shape)
        if self.traces > self._traces_at_start:
            self._warn(step, shape, "a new input signature", self.traces)
            self._traces_at_start = self.traces

    def _warn(self, step: int, shape: Shape, cause: str, total: int) -> None:
        self.compilations_after_warmup += 1
        _log.warning(
            "step %d compiled again for shape %s: %s; %d in total", step, list(shape), cause, total
        )
