"""Tells predicted mels from recorded ones, which teaches the decoder to make sharp ones.

The mean squared error is smallest at the mean of all that could be said, in which harmonics and
onsets are blurred. A discriminator looks at patches of a mel and sees that.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, NamedTuple

import keras
import tensorflow as tf


class _Convolution(NamedTuple):
    channels: int
    kernel_size: int
    stride: int


_CONVOLUTIONS = (
    _Convolution(16, 5, 1),
    _Convolution(32, 5, 2),
    _Convolution(64, 3, 2),
    _Convolution(96, 3, 2),
    _Convolution(1, 3, 1),
)
# Frames from one output of each convolution to the next.
_FRAMES_APART = tuple(accumulate((it.stride for it in _CONVOLUTIONS), operator.mul))
_NEGATIVE_SLOPE = 0.2
# The mel, the mean mels of its tokens, and how high each band is.
_INPUT_CHANNELS = 3
# Weight of feature matching, which keeps the decoder near the recording, beside the scores.
_FEATURE_MATCHING_WEIGHT = 2.0
_SMALL = 1e-12


class Judgement(NamedTuple):
    scores: tf.Tensor  # [batch, frames / 8, bands / 8]: 1 is recorded, 0 is predicted
    features: list[tf.Tensor]


class AdversarialTerms(NamedTuple):
    discriminator_error: tf.Tensor  # [batch]: squared, summed over the frames of each clip
    decoder_gradient: tf.Tensor  # of the norm of 1 in each clip, shaped like the mel


class MelDiscriminator(keras.layers.Layer):
    """A stack of two-dimensional convolutions over frames and bands, always in float32."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)

    def build(self, input_shape: Any = None) -> None:
        sizes = ((it.kernel_size, it.kernel_size, it.channels) for it in _CONVOLUTIONS)
        self.kernels, self.biases = add_convolution_weights(self, _INPUT_CHANNELS, sizes)

    def call(self, mel: tf.Tensor, expected: tf.Tensor, mask: tf.Tensor) -> Judgement:
        """`mel` and `expected` [batch, frames, mels], `mask` [batch, frames, 1]."""
        height = tf.broadcast_to(tf.linspace(-1.0, 1.0, tf.shape(mel)[2]), tf.shape(mel))
        values = tf.stack([mel * mask, expected * mask, height * mask], -1)
        features: list[tf.Tensor] = []
        for (_, _, stride), frames_apart, kernel, bias in zip(
            _CONVOLUTIONS, _FRAMES_APART, self.kernels, self.biases, strict=True
        ):
            if features:
                values = tf.nn.leaky_relu(values, _NEGATIVE_SLOPE)
            # Half a kernel on every side, so that no value depends on the size of the plane.
            margin = [kernel.shape[0] // 2] * 2
            values = tf.nn.conv2d(
                values, tf.convert_to_tensor(kernel), stride, [[0, 0], margin, margin, [0, 0]]
            )
            values = tf.nn.bias_add(values, tf.convert_to_tensor(bias))
            values *= mask[:, ::frames_apart, :, None]
            features.append(values)
        return Judgement(features.pop()[..., 0], features)

    def terms(
        self, predicted: tf.Tensor, recorded: tf.Tensor, expected: tf.Tensor, mask: tf.Tensor
    ) -> AdversarialTerms:
        """Least-squares losses of the discriminator, and the direction for the decoder.

        Each clip is judged by itself, so shares of a batch add up to the batch.
        """
        predicted = tf.stop_gradient(predicted)
        of_recorded = self(recorded, expected, mask)
        with tf.GradientTape() as tape:
            tape.watch(predicted)
            of_predicted = self(predicted, expected, mask)
            to_improve = _clip_means(tf.square(of_predicted.scores - 1.0), mask, _FRAMES_APART[-1])
            for ours, theirs, apart in zip(
                of_predicted.features, of_recorded.features, _FRAMES_APART[:-1], strict=True
            ):
                theirs = tf.stop_gradient(theirs)
                distance = _clip_means(tf.abs(ours - theirs), mask, apart)
                size = _clip_means(tf.abs(theirs), mask, apart)
                to_improve += _FEATURE_MATCHING_WEIGHT * distance / (size + _SMALL)
        gradient = tape.gradient(to_improve, predicted)
        norm = tf.sqrt(tf.reduce_sum(tf.square(gradient), [1, 2], keepdims=True))
        error = tf.square(of_recorded.scores - 1.0) + tf.square(of_predicted.scores)
        return AdversarialTerms(
            _clip_means(error, mask, _FRAMES_APART[-1]) * tf.reduce_sum(mask, [1, 2]),
            tf.stop_gradient(gradient / (norm + _SMALL)),
        )


def add_convolution_weights(
    layer: keras.layers.Layer, channels: int, sizes: Iterable[tuple[int, int, int]]
) -> tuple[list[keras.Variable], list[keras.Variable]]:
    """Add the kernels and biases of a stack of convolutions to a layer.

    `channels` is the width of the input; `sizes` are height, width and outputs of each kernel.
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


def _clip_means(values: tf.Tensor, mask: tf.Tensor, frames_apart: int) -> tf.Tensor:
    """Means over the real frames of each clip, [batch]; `values` have every nth frame."""
    inside = mask[:, ::frames_apart]  # [batch, frames / frames_apart, 1]
    values = tf.reduce_mean(values, list(range(2, values.shape.rank)))[:, :, None]
    return tf.reduce_sum(values * inside, [1, 2]) / tf.maximum(tf.reduce_sum(inside, [1, 2]), 1.0)
