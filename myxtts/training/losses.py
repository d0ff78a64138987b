"""The loss that is optimised and reported: one definition for both."""

from __future__ import annotations

import tensorflow as tf

from myxtts.models.xtts import LossParts


def total_loss(parts: LossParts) -> tf.Tensor:
    """Prior, duration and flow weigh the same: all three are errors in units of a deviation."""
    return tf.add_n(list(parts))
