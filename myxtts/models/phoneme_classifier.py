"""Recognizes which symbol is spoken at each position of a mel.

It learns from recordings, best from those whose durations are known. It teaches the decoder to be
clear: what tells one consonant from another is a small part of a mel, so the mean squared error
hardly counts it, and a discriminator finds a mel natural in which another consonant is spoken. And
it helps to align recordings whose durations are not known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.models.layers import ConvBlock, masked_mean

_WIDTH = 192
_BLOCKS = 4
_KERNEL_POSITIONS = 7
_SMALL = 1e-12


class Recognized(NamedTuple):
    logits: tf.Tensor  # [batch, positions, symbols]
    features: tf.Tensor  # [batch, positions, features]


class PhonemeClassifier(keras.layers.Layer):
    """Convolutions over positions, always in float32."""

    def __init__(self, symbols: int, channels: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self._channels = channels
        self.input_projection = keras.layers.Dense(_WIDTH, name="input")
        self.blocks = [
            ConvBlock(_WIDTH, _KERNEL_POSITIONS, name=f"block_{index}") for index in range(_BLOCKS)
        ]
        self.symbol_projection = keras.layers.Dense(symbols, name="symbols")

    def build(self, input_shape: Any = None) -> None:
        self.input_projection.build((None, self._channels))
        for block in self.blocks:
            block.build()
        self.symbol_projection.build((None, _WIDTH))

    def call(self, mel: tf.Tensor, mask: tf.Tensor) -> Recognized:
        """mel [batch, positions, channels of a position]; mask [batch, positions, 1]."""
        values = self.input_projection(mel)
        layers = []
        for block in self.blocks:
            values = block.call_whole(values * mask)
            layers.append(values)
        return Recognized(self.symbol_projection(values), tf.concat(layers, -1))

    def decoder_gradient(
        self, predicted: tf.Tensor, recorded: tf.Tensor, symbols: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Gradient for the predicted mel, with a norm of at most 1 in each clip.

        The decoder is pulled towards the features of the recording, and towards the symbols
        [batch, positions] that are spoken, as long as it is recognized less surely than the
        recording. Each clip is judged by itself, so shares of a batch add up to the batch.
        """
        predicted = tf.stop_gradient(predicted)
        goal = self(recorded, mask)
        with tf.GradientTape() as tape:
            tape.watch(predicted)
            found = self(predicted, mask)
            unsureness = cross_entropy(found.logits, symbols, mask)
            size = masked_mean(tf.abs(goal.features), mask)
            distance = masked_mean(tf.abs(found.features - goal.features), mask)
            distance = tf.reduce_sum(distance, -1) / (tf.reduce_sum(size, -1) + _SMALL)
            error = unsureness + distance
        gradient = tape.gradient(error, predicted)
        norm = tf.sqrt(tf.reduce_sum(tf.square(gradient), [1, 2], keepdims=True))
        lag = tf.maximum(unsureness - cross_entropy(goal.logits, symbols, mask), 0.0) + distance
        lag = tf.minimum(lag, 1.0)[:, None, None]
        return tf.stop_gradient(gradient * lag / (norm + _SMALL))


def cross_entropy(logits: tf.Tensor, symbols: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Means over the real positions of each clip, [batch]."""
    error = tf.nn.sparse_softmax_cross_entropy_with_logits(symbols, logits)
    return masked_mean(error[:, :, None], mask)[:, 0]
