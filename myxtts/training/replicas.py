"""Checks that the replicas of a model stay in sync, and names the errors of a lost machine."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from myxtts.data.batch import Batch
from myxtts.devices.strategy import model_scope, sum_over_replicas
from myxtts.errors import DeviceError
from myxtts.training.optimizer import FlatAdamW

# What TensorFlow raises in a collective when another machine stops responding.
LOST_MACHINE_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
# The mean of equal sums can differ from them by rounding.
_TOLERANCE = 1e-6
# Two steps take seconds, with several machines on a slow network minutes.
_LONGEST_TRIAL_SECONDS = 600.0

_Result = TypeVar("_Result")


class ReplicasFailedError(DeviceError):
    """Mirrored training does not work with these devices."""


def try_replicas(
    training_step: Any,
    optimizer: FlatAdamW,
    batches: Iterable[Batch],
    limit_seconds: float = _LONGEST_TRIAL_SECONDS,
) -> None:
    """Trains on the batches, compares the weights of all replicas and undoes the steps."""
    before = optimizer.state()

    def train() -> tuple[list[float], float]:
        losses = [float(training_step(batch, tf.constant(True)).loss) for batch in batches]
        return losses, _largest_difference(optimizer)

    try:
        losses, difference = _within(limit_seconds, train)
    except LOST_MACHINE_ERRORS:
        raise
    except tf.errors.OpError as error:
        raise ReplicasFailedError(f"a trial step failed: {_first_line(error)}") from error
    if not all(map(math.isfinite, losses)):
        raise ReplicasFailedError(f"the losses of the trial steps are not finite: {losses}")
    if not difference <= _TOLERANCE:
        raise ReplicasFailedError(
            f"after {len(losses)} trial steps the weights of the replicas differ by up to "
            f"{difference:.3g}"
        )
    optimizer.restore_state(before)


def _within(limit_seconds: float, work: Callable[[], _Result]) -> _Result:
    """The result of the work, which a link between devices may keep from ever ending.

    A thread that waits for a device cannot be stopped; it is left behind.
    """
    strategy = tf.distribute.get_strategy()
    results: queue.Queue[_Result | BaseException] = queue.Queue()

    def run() -> None:
        try:
            # Scopes belong to threads.
            with model_scope(strategy):
                results.put(work())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            results.put(error)

    threading.Thread(target=run, name="trial of replicas", daemon=True).start()
    try:
        result = results.get(timeout=limit_seconds)
    except queue.Empty:
        raise ReplicasFailedError(
            f"trial steps on all replicas did not end within {limit_seconds:.0f} s; is a link "
            "between the devices stuck?"
        ) from None
    if isinstance(result, BaseException):
        raise result
    return result


def _largest_difference(optimizer: FlatAdamW) -> float:
    """Between the weights of any two replicas, relative to the largest weight.

    Copies on this machine are compared directly, without the all-reduce under test; other
    machines are compared by their sums.
    """
    strategy = tf.distribute.get_strategy()
    differences = [0.0]
    largest = 1e-9
    for variable in optimizer.variables_here:
        copies = [np.asarray(copy) for copy in strategy.experimental_local_results(variable)]
        largest = max(largest, float(np.max(np.abs(copies[0]))))
        differences += [float(np.max(np.abs(copy - copies[0]))) for copy in copies[1:]]

    def own_sums() -> tf.Tensor:
        weights = optimizer.weights()
        return tf.stack([tf.reduce_sum(weights), tf.reduce_sum(tf.square(weights))])

    mean = sum_over_replicas(strategy, own_sums) / strategy.num_replicas_in_sync
    size = sum(int(np.prod(variable.shape)) for variable in optimizer.variables_here)
    differences.append(float(tf.reduce_max(tf.abs(own_sums() - mean))) / size)
    return max(differences) / largest


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
