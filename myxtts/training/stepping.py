"""The compiled step on its devices: compiled, warmed up and tested once, then run and monitored."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.shapes import Shape, ShapePlan
from myxtts.devices.function_names import start_names_at_round_number
from myxtts.devices.strategy import place_of, uses_xla
from myxtts.errors import DeviceError
from myxtts.training.optimizer import FlatAdamW
from myxtts.training.replicas import try_replicas
from myxtts.training.step import StepResult, compile_training_step
from myxtts.training.task import Task
from myxtts.training.watching.accounting import TimeAccount
from myxtts.training.watching.retracing import RetracingMonitor

_log = logging.getLogger(__name__)

# done, total
OnProgress = Callable[[int, int], None]


class Stepper:
    """Create and use it in the strategy's scope; elsewhere the step is traced again."""

    def __init__(
        self,
        task: Task,
        optimizer: FlatAdamW,
        plan: ShapePlan,
        config: XTTSConfig,
        account: TimeAccount,
    ) -> None:
        strategy = tf.distribute.get_strategy()
        place = place_of(strategy)
        self._task = task
        self._optimizer = optimizer
        self._plan = plan.part(place.workers)
        self._config = config
        self._account = account
        self._expected_seconds: float | None = None
        self._xla = uses_xla(strategy, config.training.xla)
        self.compiled_step = compile_training_step(
            task.objective, optimizer, task.signature(self._plan), config.training, xla=self._xla
        )
        if self._xla:
            # Its programs are cached under their names.
            start_names_at_round_number()
        self.compiled_step.get_concrete_function()
        self._monitor = RetracingMonitor(
            self.compiled_step,
            self._plan,
            xla=self._xla,
            devices=strategy.num_replicas_in_sync // place.workers,
        )

    def warm_up(self, on_progress: OnProgress) -> None:
        """Runs the largest shape, and with XLA every shape, on blank batches without an update.

        As the last step of the run, which computes the most: a batch that does not fit into memory
        fails here, not hours into the run.
        """
        if self._plan.dynamic:
            _log.warning(
                "batching: dynamic gives every batch its own shape%s; it is meant for comparison. "
                "batching: bucketed trains on the same clips with a few shapes",
                ", and XLA compiles each new one" if self._xla else "",
            )
        largest_first = sorted(self._plan.shapes, key=_size, reverse=True)
        shapes = largest_first if self._xla and not self._plan.dynamic else largest_first[:1]
        for done, shape in enumerate(shapes):
            on_progress(done, len(shapes))
            batch = self._task.blank_batch(shape, self._plan.shares)
            with self._optimizer.at_last_step():
                self._compute(shape, batch, update=False)
            self._monitor.note(shape)
        on_progress(len(shapes), len(shapes))
        self._monitor.finish_warm_up()
        if not self._plan.dynamic:
            self._expected_seconds = self._time_usual_shape()

    @property
    def expected_seconds(self) -> float | None:
        """Of a mean step, after warm-up; None if every batch has its own shape."""
        return self._expected_seconds

    def _time_usual_shape(self) -> float:
        """Seconds of the shape that is nearest to the mean of all batches."""
        shapes = self._plan.shapes
        frames = np.array([shape.batch * shape.frames for shape in shapes])
        batches = [len(self._plan.clips_of(i)) / shape.batch for i, shape in enumerate(shapes)]
        mean = np.average(frames, weights=batches)
        usual = shapes[int(np.argmin(np.abs(frames - mean)))]
        batch = self._task.blank_batch(usual, self._plan.shares)
        # The first run of a shape also plans and allocates.
        self._compute(usual, batch, update=False)
        started = time.perf_counter()
        self._compute(usual, batch, update=False)
        return time.perf_counter() - started

    def try_replicas(self, batches: Iterable[Any]) -> None:
        try_replicas(self.compiled_step, self._optimizer, batches)

    def run(self, step: int, batch: Any) -> StepResult:
        """Trains on a batch and waits for the device."""
        shape = self._task.shape_of(batch)
        self._monitor.require_declared(shape)
        compiles = self._monitor.compiles(shape)
        with self._account.spending("compile" if compiles else "compute"):
            result = self._compute(shape, batch, update=True)
        self._monitor.check(step, shape)
        return result

    def counts(self) -> dict[str, int]:
        """Traces and compilations so far."""
        return self._monitor.counts()

    def trained_shapes(self) -> set[Shape]:
        return self._monitor.trained

    def _compute(self, shape: Shape, batch: Any, *, update: bool) -> StepResult:
        with reporting_out_of_memory(self._config, shape):
            result: StepResult = self.compiled_step(batch, tf.constant(update))
            result.loss.numpy()  # waits for the device
        return result


def _size(shape: Shape) -> int:
    return shape.batch * shape.frames * shape.tokens


def out_of_memory(config: XTTSConfig, shape: Shape | None = None) -> str:
    """The message for a device that ran out of memory, during a step of `shape` or elsewhere."""
    accumulation = config.training.gradient_accumulation_steps
    batch = (
        f"the device cannot hold a batch of {shape.batch // accumulation} clips of "
        f"{shape.tokens} tokens and {shape.frames} mel frames"
        if shape
        else "the device cannot hold the model and a batch"
    )
    return (
        f"out of memory: {batch}; halve data.batch_size (now {config.data.batch_size}) and double "
        f"training.gradient_accumulation_steps (now {accumulation}) for the same training, or "
        "leave out long clips with data.max_mel_frames"
    )


@contextlib.contextmanager
def reporting_out_of_memory(config: XTTSConfig, shape: Shape | None = None) -> Iterator[None]:
    """Turn TensorFlow's out-of-memory error into one line that says what to change."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise DeviceError(out_of_memory(config, shape)) from error
