"""Counts how often the step is traced and compiled, and warns when it happens again."""

from __future__ import annotations

import logging
from typing import Any

from myxtts.data.planning.shapes import Shape, ShapePlan
from myxtts.devices.compilations import CompilationLog
from myxtts.errors import DataError

_log = logging.getLogger(__name__)


class RetracingMonitor:
    """Watches one compiled function.

    Traces are TensorFlow's own count. XLA's compilations are counted by its log where there is
    one; else by the distinct shapes that were met, because it compiles once for each on each
    device.
    """

    def __init__(
        self,
        compiled_step: Any,
        plan: ShapePlan,
        *,
        xla: bool,
        devices: int = 1,
        log: CompilationLog | None = None,
    ) -> None:
        self._compiled_step = compiled_step
        self._declared = None if plan.dynamic else set(plan.shapes)
        self._xla = xla
        self._devices = devices
        self._log = log
        self.met: set[Shape] = set()
        self._traces_before = self._compilations_before = 0
        self.compilations_after_warmup = 0

    @property
    def traces(self) -> int:
        return int(self._compiled_step.experimental_get_tracing_count())

    @property
    def compilations(self) -> int:
        if not self._xla:
            return 0
        logged = None if self._log is None else self._log.count()
        return self._devices * len(self.met) if logged is None else logged

    def counts(self) -> dict[str, int]:
        """As metrics.jsonl and report.json have them."""
        return {
            "traces": self.traces,
            "compilations": self.compilations,
            "compilations_after_warmup": self.compilations_after_warmup,
        }

    def compiles(self, shape: Shape) -> bool:
        """Whether a step of this shape will have to be compiled first."""
        return self._xla and shape not in self.met

    def require_declared(self, shape: Shape) -> None:
        """To be called before each step; a shape that was not planned never reaches the step."""
        if self._declared is not None and shape not in self._declared:
            raise DataError(
                f"a batch has the shape {list(shape)} (clips, tokens, frames, slots), which is not "
                f"among the declared ones: {sorted(map(list, self._declared))}"
            )

    def finish_warm_up(self) -> None:
        self._traces_before, self._compilations_before = self.traces, self.compilations

    def note(self, shape: Shape) -> None:
        """To be called after the step has met a shape in the warm-up."""
        self.met.add(shape)

    def check(self, step: int, shape: Shape) -> None:
        """To be called after each step with the shape of its batch."""
        was_met = shape in self.met
        self.met.add(shape)
        traces, compilations = self.traces, self.compilations
        # Under XLA a new trace is compiled as well: one event.
        new = max(traces - self._traces_before, compilations - self._compilations_before)
        if new <= 0:
            return
        self.compilations_after_warmup += new
        if traces > self._traces_before:
            cause = "the step was traced again"
        elif was_met:
            cause = "another part than the step was compiled"
        else:
            cause = "a shape that was not declared; batching: bucketed declares them all"
        _log.warning(
            "step %d compiled again for shape %s: %s; %d traces and %d compilations in total",
            step,
            list(shape),
            cause,
            traces,
            compilations,
        )
        self._traces_before, self._compilations_before = traces, compilations
