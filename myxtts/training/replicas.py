"""Whether the replicas of a model really train together, and how the loss of one shows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from myxtts.errors import DeviceError
from myxtts.models.xtts import Batch
from myxtts.training.optimizer import FlatAdamW

# What TensorFlow raises in a collective when another machine does not answer any more.
LOST_MACHINE_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
# The mean of equal numbers can differ from them by rounding.
_TOLERANCE = 1e-6


class ReplicasFailedError(DeviceError):
    """Mirrored training does not work with these devices."""


def try_replicas(training_step: Any, optimizer: FlatAdamW, batches: Iterable[Batch]) -> None:
    """Trains on the batches, compares the weights of all replicas and takes the steps back."""
    before = optimizer.state()
    try:
        losses = [float(training_step(batch, tf.constant(True)).loss) for batch in batches]
        difference = _largest_difference(optimizer)
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


def _largest_difference(optimizer: FlatAdamW) -> float:
    """Between a weight on any replica and its mean over all of them, beside the largest weight."""
    strategy = tf.distribute.get_strategy()

    def compare() -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        own = optimizer.weights()
        mean = context.all_reduce(tf.distribute.ReduceOp.MEAN, own)
        return tf.reduce_max(tf.abs(own - mean)) / tf.reduce_max(tf.abs(own))

    compared = tf.function(lambda: strategy.run(compare), autograph=False)()
    return max(float(value) for value in strategy.experimental_local_results(compared))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
