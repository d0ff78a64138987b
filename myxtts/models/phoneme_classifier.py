"""Tells which symbol is spoken at each position of a mel, which teaches the decoder to be clear.

What tells one consonant from another is a small part of a mel: the mean squared error hardly
counts it, and a discriminator finds a mel natural in which another consonant is spoken. A
classifier that learns from recordings sees the difference.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.models.layers import ConvBlock, masked_mean

_WIDTH = 192
_BLOCKS = 2
_KERNEL_POSITIONS = 7
_SMALL = 1e-12


class ClassifierTerms(NamedTuple):
    classifier_error: tf.Tensor  # [batch]: cross-entropy, summed over the positions of each clip
    decoder_gradient: tf.Tensor  # shaped like the mel, with a norm of at most 1 in each clip


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

    def call(self, mel: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Logits [batch, positions, symbols] of `mel` [batch, positions, channels of a position];
        `mask` [batch, positions, 1].
        """
        values = self.input_projection(mel)
        for block in self.blocks:
            values = block.call_whole(values * mask)
        return self.symbol_projection(values)

    def terms(
        self, predicted: tf.Tensor, recorded: tf.Tensor, symbols: tf.Tensor, mask: tf.Tensor
    ) -> ClassifierTerms:
        """`symbols` [batch, positions] are those of the text along the alignment.

        The classifier learns from recordings alone. The decoder is pulled as long as its mel is
        recognised less surely than the recording. Each clip is judged by itself, so shares of a
        batch add up to the batch.
        """
        predicted = tf.stop_gradient(predicted)
        of_recorded = self._cross_entropy(recorded, symbols, mask)
        with tf.GradientTape() as tape:
            tape.watch(predicted)
            of_predicted = self._cross_entropy(predicted, symbols, mask)
        gradient = tape.gradient(of_predicted, predicted)
        norm = tf.sqrt(tf.reduce_sum(tf.square(gradient), [1, 2], keepdims=True))
        lag = tf.clip_by_value(of_predicted - of_recorded, 0.0, 1.0)[:, None, None]
        return ClassifierTerms(
            of_recorded * tf.reduce_sum(mask, [1, 2]),
            tf.stop_gradient(gradient * lag / (norm + _SMALL)),
        )

    def _cross_entropy(self, mel: tf.Tensor, symbols: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Means over the real positions of each clip, [batch]."""
        error = tf.nn.sparse_softmax_cross_entropy_with_logits(symbols, self(mel, mask))
        return masked_mean(error[:, :, None], mask)[:, 0]
