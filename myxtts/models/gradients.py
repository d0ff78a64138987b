"""Gradients that are given, and not found by TensorFlow, whose own take longer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def with_gradient(
    function: Callable[[tf.Tensor], tuple[tf.Tensor, Any]],
) -> Callable[[tf.Tensor], tf.Tensor]:
    """`tf.custom_gradient` in graphs, which is where training runs.

    Called eagerly, as for a single sentence, the wrapping would take longer than the operation;
    there TensorFlow's own gradient serves.
    """
    in_graphs = tf.custom_gradient(function)

    @functools.wraps(function)
    def call(values: tf.Tensor) -> tf.Tensor:
        return function(values)[0] if tf.executing_eagerly() else in_graphs(values)

    return call


def gradients_only(values: Sequence[tf.Tensor], gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Zero, with these gradients."""
    pull = tf.add_n(
        [
            tf.reduce_sum(value * tf.stop_gradient(gradient))
            for value, gradient in zip(values, gradients, strict=True)
        ]
    )
    return pull - tf.stop_gradient(pull)
