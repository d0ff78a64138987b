"""Runs the step on every declared shape before training, to compile it and to test memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.planning.shapes import Shape, ShapePlan
from myxtts.errors import DeviceError
from myxtts.training.task import Task
from myxtts.training.watching.retracing import RetracingMonitor

# done, total
OnProgress = Callable[[int, int], None]


def warm_up(
    training_step: Any,
    monitor: RetracingMonitor,
    plan: ShapePlan,
    task: Task,
    config: XTTSConfig,
    *,
    xla: bool,
    on_progress: OnProgress,
) -> None:
    """Runs the largest shape, and with XLA every shape, on blank batches without an update.

    A batch that does not fit into memory fails here, not hours into the run.
    """
    largest_first = sorted(plan.shapes, key=_size, reverse=True)
    shapes = largest_first if xla and not plan.dynamic else largest_first[:1]
    for done, shape in enumerate(shapes):
        on_progress(done, len(shapes))
        batch = task.blank_batch(shape, plan.shares)
        try:
            training_step(batch, tf.constant(False)).loss.numpy()
        except tf.errors.ResourceExhaustedError as error:
            raise DeviceError(out_of_memory(shape, config)) from error
        monitor.note(shape)
    on_progress(len(shapes), len(shapes))
    monitor.finish_warm_up()


def _size(shape: Shape) -> int:
    return shape.batch * shape.frames * shape.tokens


def out_of_memory(shape: Shape, config: XTTSConfig) -> str:
    accumulation = config.training.gradient_accumulation_steps
    return (
        f"out of memory: the device cannot hold a batch of {shape.batch // accumulation} clips of "
        f"{shape.tokens} tokens and {shape.frames} mel frames; halve data.batch_size (now "
        f"{config.data.batch_size}) and double training.gradient_accumulation_steps (now "
        f"{accumulation}) for the same training, or leave out long clips with data.max_mel_frames"
    )
