"""Convolution over frames and bands, in the form that is fastest where it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import keras
import tensorflow as tf

from myxtts.models.convolution_forms import convolves_for_xla_on_cpus


def add_convolution_weights(
    layer: keras.layers.Layer, channels: int, sizes: Iterable[tuple[int, int, int]]
) -> tuple[list[keras.Variable], list[keras.Variable]]:
    """Kernels and biases of a stack whose input has so many channels.

    `sizes` are height, width and outputs of each kernel.
    """
    kernels, biases = [], []
    for index, (height, width, outputs) in enumerate(sizes):
        shape = (height, width, channels, outputs)
        kernels.append(
            layer.add_weight(name=f"kernel_{index}", shape=shape, initializer="he_normal")
        )
        channels = outputs
        biases.append(layer.add_weight(name=f"bias_{index}", shape=shape[-1:], initializer="zeros"))
    return kernels, biases


def plane_convolution(values: tf.Tensor, kernel: tf.Tensor, stride: int) -> tf.Tensor:
    """values [batch, height, width, channels], kernel [odd size, the same, channels, outputs].

    Margins are half a kernel on every side, so that no value depends on the size of the plane.
    """
    if convolves_for_xla_on_cpus():
        return _convolution_of_blocks(values, kernel, stride)
    margin = [kernel.shape[0] // 2] * 2
    return tf.nn.conv2d(values, kernel, stride, [[0, 0], margin, margin, [0, 0]])


def _convolution_of_blocks(values: tf.Tensor, kernel: tf.Tensor, stride: int) -> tf.Tensor:
    """Blocks of stride x stride values are channels of one position, so no step is skipped.

    Gradients of skipping steps take XLA for CPUs four times as long.
    """
    size, _, channels, outputs = kernel.shape
    blocks = -(-size // stride)  # that a kernel covers
    height, width = (
        (-(-tf.shape(values)[axis] // stride) + blocks - 1) * stride for axis in (1, 2)
    )
    margin, more = size // 2, blocks * stride
    padded = tf.pad(values, [[0, 0], [margin, more], [margin, more], [0, 0]])
    filled = tf.pad(kernel, [[0, more - size], [0, more - size], [0, 0], [0, 0]])
    filled = tf.reshape(filled, [blocks, stride, blocks, stride, channels, outputs])
    filled = tf.transpose(filled, [0, 2, 1, 3, 4, 5])
    return _convolution(
        _blocks(padded[:, :height, :width], stride),
        tf.reshape(filled, [blocks, blocks, stride * stride * channels, outputs]),
    )


def _blocks(values: tf.Tensor, stride: int) -> tf.Tensor:
    return values if stride == 1 else tf.nn.space_to_depth(values, stride)


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _convolution(values: tf.Tensor, kernel: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
    """Without margins. Both gradients are convolutions of axes in their usual order.

    TensorFlow's own name other axes, which XLA for CPUs reorders in a whole program but not in a
    branch of tf.cond: there they take ten times as long.
    """

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        margin = [kernel.shape[0] - 1] * 2
        of_values = tf.nn.conv2d(
            upstream,
            tf.reverse(tf.transpose(kernel, [0, 1, 3, 2]), [0, 1]),
            strides=1,
            padding=[[0, 0], margin, margin, [0, 0]],
        )
        of_kernel = tf.nn.conv2d(
            tf.transpose(values, [3, 1, 2, 0]),
            tf.transpose(upstream, [1, 2, 0, 3]),
            strides=1,
            padding="VALID",
        )
        return of_values, tf.transpose(of_kernel, [1, 2, 0, 3])

    return tf.nn.conv2d(values, kernel, strides=1, padding="VALID"), gradient
