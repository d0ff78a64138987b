"""Counts traces and compilations of the training step, and warns about new ones after warm-up."""

from __future__ import annotations

import logging
from typing import Any

from myxtts.data.shapes import Shape, ShapePlan
from myxtts.errors import DataError, plural

_log = logging.getLogger(__name__)


class RetracingMonitor:
    """Monitors one compiled function.

    Traces are TensorFlow's own count. XLA compiles once per shape and device, so its compilations
    follow from the distinct shapes.
    """

    def __init__(
        self,
        compiled_step: Any,
        plan: ShapePlan,
        *,
        xla: bool,
        devices: int = 1,
    ) -> None:
        self._compiled_step = compiled_step
        self._declared = None if plan.dynamic else set(plan.shapes)
        self._xla = xla
        self._devices = devices
        self.met: set[Shape] = set()
        self.trained: set[Shape] = set()
        self._traces_before = self._compilations_before = 0
        self.compilations_after_warmup = 0

    @property
    def traces(self) -> int:
        return int(self._compiled_step.experimental_get_tracing_count())

    @property
    def compilations(self) -> int:
        return self._devices * len(self.met) if self._xla else 0

    def counts(self) -> dict[str, int]:
        """With the keys of metrics.jsonl and report.json."""
        return {
            "traces": self.traces,
            "compilations": self.compilations,
            "compilations_after_warmup": self.compilations_after_warmup,
        }

    def compiles(self, shape: Shape) -> bool:
        """Whether a step of this shape has to be compiled first."""
        return self._xla and shape not in self.met

    def require_declared(self, shape: Shape) -> None:
        """Call this before each step; an undeclared shape never reaches the step."""
        if self._declared is not None and shape not in self._declared:
            raise DataError(
                f"a batch has shape {list(shape)} (clips, tokens, frames, slots), which is not one "
                f"of the declared shapes: {sorted(map(list, self._declared))}"
            )

    def finish_warm_up(self) -> None:
        self._traces_before, self._compilations_before = self.traces, self.compilations

    def note(self, shape: Shape) -> None:
        """Call this after the step has run on a shape during warm-up."""
        self.met.add(shape)

    def check(self, step: int, shape: Shape) -> None:
        """Call this after each step with the shape of its batch."""
        self.trained.add(shape)
        self.met.add(shape)
        traces, compilations = self.traces, self.compilations
        # With XLA a new trace is also compiled, which counts as one event.
        new = max(traces - self._traces_before, compilations - self._compilations_before)
        if new <= 0:
            return
        self.compilations_after_warmup += new
        if traces > self._traces_before:
            cause = "the step was retraced"
        else:
            cause = "undeclared shape; batching: bucketed declares all shapes"
        _log.warning(
            "step %d recompiled for shape %s: %s; %d %s and %d %s in total",
            step,
            list(shape),
            cause,
            traces,
            plural(traces, "trace"),
            compilations,
            plural(compilations, "compilation"),
        )
        self._traces_before, self._compilations_before = traces, compilations
