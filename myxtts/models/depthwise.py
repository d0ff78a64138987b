"""Depthwise convolution over positions, in the form that is fastest where it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from myxtts.models.convolution_forms import convolves_for_xla_on_cpus


def depthwise_convolution(values: tf.Tensor, kernel: tf.Tensor, dtype: str) -> tf.Tensor:
    """values [batch, positions, width], kernel [1, kernel positions, width, 1]; "same" padding."""
    values, kernel = tf.cast(values, dtype), tf.cast(kernel, dtype)
    if convolves_for_xla_on_cpus():
        return _sum_of_shifts(values, tf.reshape(kernel, [kernel.shape[1], -1]))
    # The 2-D one is TensorFlow's fastest on CPUs.
    convolved = tf.nn.depthwise_conv2d(
        tf.expand_dims(values, 1), kernel, strides=[1, 1, 1, 1], padding="SAME"
    )
    return tf.squeeze(convolved, 1)


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _sum_of_shifts(values: tf.Tensor, kernel: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
    """kernel [kernel positions, width].

    XLA for CPUs takes ten to twenty times as long for a depthwise convolution as TensorFlow does,
    and fuses the shifted copies into one loop, which is as fast.
    """
    before = (kernel.shape[0] - 1) // 2
    after = kernel.shape[0] - 1 - before

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        of_values = tf.reduce_sum(_shifted(upstream, after, before) * kernel[::-1, None], 1)
        products = _shifted(values, before, after) * upstream[:, None]
        # Positions first, then clips: one sum over both takes XLA twice as long.
        return of_values, tf.reduce_sum(tf.reduce_sum(products, 2), 0)

    return tf.reduce_sum(_shifted(values, before, after) * kernel[:, None], 1), gradient


def _shifted(values: tf.Tensor, before: int, after: int) -> tf.Tensor:
    """[batch, shifts, positions, width]. By indices: slices take three times as long to compile."""
    padded = tf.pad(values, [[0, 0], [before, after], [0, 0]])
    shifts, positions = tf.range(before + after + 1), tf.range(tf.shape(values)[1])
    return tf.gather(padded, shifts[:, None] + positions, axis=1)
