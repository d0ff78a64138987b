"""Dynamic loss scaling: keeps small float16 gradients from underflowing to zero.

The loss is multiplied by the scale before differentiation, and the gradient divided by it
afterwards. The scale halves when the gradient overflows and doubles after many good steps.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import tensorflow as tf

from myxtts.runs.checkpoint import Tensors

_FIRST_SCALE = 2.0**15
# After this many finite steps in a row, a larger scale is tried.
GOOD_STEPS_TO_GROW = 1_000
_Value = TypeVar("_Value")
_PREFIX = "loss_scale/"
LOSS_SCALE = f"{_PREFIX}value"


class LossScale(tf.Module):
    def __init__(self) -> None:
        super().__init__(name="loss_scale")
        self.value = tf.Variable(_FIRST_SCALE, trainable=False, name="value")
        self.good_steps = tf.Variable(0, trainable=False, dtype=tf.int64, name="good_steps")

    def following(
        self, gradient_is_finite: tf.Tensor, update: tf.Tensor
    ) -> list[tuple[tf.Variable, tf.Tensor]]:
        """The assignments after a step; they must be the same on all replicas."""
        good_steps = tf.where(gradient_is_finite, self.good_steps + 1, 0)
        grows = good_steps >= GOOD_STEPS_TO_GROW
        larger = tf.where(grows, 2.0 * self.value, self.value)
        value = tf.where(gradient_is_finite, larger, tf.maximum(self.value / 2.0, 1.0))
        good_steps = tf.where(grows, tf.zeros_like(good_steps), good_steps)
        return [
            (self.value, tf.where(update, value, self.value)),
            (self.good_steps, tf.where(update, good_steps, self.good_steps)),
        ]

    def state(self) -> Tensors:
        return {
            LOSS_SCALE: np.array(self.value.numpy()),
            f"{_PREFIX}good_steps": np.array(self.good_steps.numpy()),
        }

    def restore(self, state: Tensors) -> None:
        """Restores what `state` returned; a checkpoint without a loss scale changes nothing."""
        if LOSS_SCALE in state:
            self.value.assign(state[LOSS_SCALE])
            self.good_steps.assign(state[f"{_PREFIX}good_steps"])


def without_scale(state: dict[str, _Value]) -> dict[str, _Value]:
    return {name: value for name, value in state.items() if not name.startswith(_PREFIX)}
