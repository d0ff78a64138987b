"""The compiled step on its devices: compiled, warmed up and tested once, then run and monitored."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.planning.shapes import Shape, ShapePlan
from myxtts.devices.compilations import CompilationLog
from myxtts.devices.strategy import place_of, uses_xla
from myxtts.errors import DeviceError
from myxtts.training.optimizer import FlatAdamW
from myxtts.training.replicas import try_replicas
from myxtts.training.step import StepResult, compile_training_step
from myxtts.training.task import Task
from myxtts.training.warmup import OnProgress, out_of_memory, warm_up
from myxtts.training.watching.accounting import TimeAccount
from myxtts.training.watching.retracing import RetracingMonitor

_log = logging.getLogger(__name__)


class Stepper:
    """Create and use it in the strategy's scope; elsewhere the step is traced again."""

    def __init__(
        self,
        task: Task,
        optimizer: FlatAdamW,
        plan: ShapePlan,
        config: XTTSConfig,
        account: TimeAccount,
        compilation_log: CompilationLog | None,
    ) -> None:
        strategy = tf.distribute.get_strategy()
        place = place_of(strategy)
        self._task = task
        self._optimizer = optimizer
        self._plan = plan.part(place.workers)
        self._config = config
        self._account = account
        self._xla = uses_xla(strategy, config.training.xla)
        self.compiled_step = compile_training_step(
            task.objective, optimizer, task.signature(self._plan), config.training, xla=self._xla
        )
        self.compiled_step.get_concrete_function()
        self._monitor = RetracingMonitor(
            self.compiled_step,
            self._plan,
            xla=self._xla,
            devices=strategy.num_replicas_in_sync // place.workers,
            log=compilation_log,
        )

    def warm_up(self, on_progress: OnProgress) -> None:
        if self._plan.dynamic:
            _log.warning(
                "batching: dynamic gives every batch its own shape%s; it is meant for comparison. "
                "batching: bucketed trains on the same clips with a few shapes",
                ", and XLA compiles each new one" if self._xla else "",
            )
        warm_up(
            self.compiled_step,
            self._monitor,
            self._plan,
            self._task,
            self._config,
            xla=self._xla,
            on_progress=on_progress,
        )

    def try_replicas(self, batches: Iterable[Any]) -> None:
        try_replicas(self.compiled_step, self._optimizer, batches)

    def run(self, step: int, batch: Any) -> StepResult:
        """Trains on a batch and waits for the device."""
        shape = self._task.shape_of(batch)
        self._monitor.require_declared(shape)
        compiles = self._monitor.compiles(shape)
        with self._account.spending("compile" if compiles else "compute"):
            try:
                result: StepResult = self.compiled_step(batch, tf.constant(True))
                result.loss.numpy()  # waits for the device
            except tf.errors.ResourceExhaustedError as error:
                raise DeviceError(out_of_memory(shape, self._config)) from error
        self._monitor.check(step, shape)
        return result

    def counts(self) -> dict[str, int]:
        """Traces and compilations so far."""
        return self._monitor.counts()

    def trained_shapes(self) -> set[Shape]:
        return self._monitor.trained
