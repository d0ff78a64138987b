"""Critics: networks that train the decoder and are not used in synthesis.

The squared error of a mel is smallest at the mean of all plausible mels, in which harmonics and
onsets are blurred. It is hardly affected by what distinguishes consonants. The discriminator scores
patches of a mel as recorded or predicted, which makes predicted mels sharp. The phoneme classifier
recognizes the symbol at each position, which makes speech clear.
"""

from __future__ import annotations

import operator
from itertools import accumulate
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.models.layers import ConvBlock, masked_mean

_SMALL = 1e-12


class Convolution(NamedTuple):
    channels: int
    kernel_size: tuple[int, int]  # frames, bands
    stride: tuple[int, int]


class Critique(NamedTuple):
    scores: tf.Tensor  # [batch, frames, bands] after all strides: 1 is recorded, 0 is predicted
    features: list[tf.Tensor]


class PatchDiscriminator(keras.layers.Layer):
    """A stack of two-dimensional convolutions over frames and bands, always in float32."""

    convolutions: tuple[Convolution, ...]
    input_channels: int
    negative_slope = 0.2

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)

    def build(self, input_shape: Any = None) -> None:
        self.kernels, self.biases = [], []
        channels = self.input_channels
        for index, it in enumerate(self.convolutions):
            shape = (*it.kernel_size, channels, it.channels)
            channels = it.channels
            self.kernels.append(
                self.add_weight(name=f"kernel_{index}", shape=shape, initializer="he_normal")
            )
            self.biases.append(
                self.add_weight(name=f"bias_{index}", shape=(channels,), initializer="zeros")
            )

    @property
    def frames_apart(self) -> tuple[int, ...]:
        """Stride in frames at the output of each convolution."""
        return tuple(accumulate((it.stride[0] for it in self.convolutions), operator.mul))

    def score(self, values: tf.Tensor, mask: tf.Tensor | None = None) -> Critique:
        """Score planes [batch, frames, bands, channels] with a mask [batch, frames, 1]."""
        features: list[tf.Tensor] = []
        for convolution, apart, kernel, bias in zip(
            self.convolutions, self.frames_apart, self.kernels, self.biases, strict=True
        ):
            if features:
                values = tf.nn.leaky_relu(values, self.negative_slope)
            # Pad by half a kernel on every side, so that no value depends on the size of the plane.
            margins = [[0, 0], *([size // 2] * 2 for size in convolution.kernel_size), [0, 0]]
            values = tf.nn.conv2d(values, tf.convert_to_tensor(kernel), convolution.stride, margins)
            values = tf.nn.bias_add(values, tf.convert_to_tensor(bias))
            if mask is not None:
                values *= mask[:, ::apart, :, None]
            features.append(values)
        return Critique(features.pop()[..., 0], features)


def band_heights(mel: tf.Tensor) -> tf.Tensor:
    """Return the height of each band from -1 to 1, as an input next to [batch, frames, bands]."""
    return tf.broadcast_to(tf.linspace(-1.0, 1.0, tf.shape(mel)[2]), tf.shape(mel))


class AdversarialTerms(NamedTuple):
    discriminator_error: tf.Tensor  # [batch]: squared, summed over the frames of each clip
    decoder_gradient: tf.Tensor  # of norm 1 in each clip, shaped like the mel


class MelDiscriminator(PatchDiscriminator):
    """Scores mels next to the mean mels of their tokens."""

    convolutions = (
        Convolution(16, (5, 5), (1, 1)),
        Convolution(32, (5, 5), (2, 2)),
        Convolution(64, (3, 3), (2, 2)),
        Convolution(96, (3, 3), (2, 2)),
        Convolution(1, (3, 3), (1, 1)),
    )
    input_channels = 3
    # Feature matching keeps the decoder close to the recording.
    feature_matching_weight = 2.0

    def call(self, mel: tf.Tensor, expected: tf.Tensor, mask: tf.Tensor) -> Critique:
        """Score `mel`, given `expected`, both [batch, frames, mels]; `mask` [batch, frames, 1]."""
        planes = [mel * mask, expected * mask, band_heights(mel) * mask]
        return self.score(tf.stack(planes, -1), mask)

    def terms(
        self, predicted: tf.Tensor, recorded: tf.Tensor, expected: tf.Tensor, mask: tf.Tensor
    ) -> AdversarialTerms:
        """Return least-squares losses of the discriminator and the direction for the decoder.

        Each clip is scored by itself, so micro-batches add up to the batch.
        """
        predicted = tf.stop_gradient(predicted)
        *feature_strides, score_stride = self.frames_apart
        of_recorded = self(recorded, expected, mask)
        with tf.GradientTape() as tape:
            tape.watch(predicted)
            of_predicted = self(predicted, expected, mask)
            to_improve = _clip_means(tf.square(of_predicted.scores - 1.0), mask, score_stride)
            for ours, theirs, apart in zip(
                of_predicted.features, of_recorded.features, feature_strides, strict=True
            ):
                theirs = tf.stop_gradient(theirs)
                distance = _clip_means(tf.abs(ours - theirs), mask, apart)
                size = _clip_means(tf.abs(theirs), mask, apart)
                to_improve += self.feature_matching_weight * distance / (size + _SMALL)
        gradient = tape.gradient(to_improve, predicted)
        norm = tf.sqrt(tf.reduce_sum(tf.square(gradient), [1, 2], keepdims=True))
        error = tf.square(of_recorded.scores - 1.0) + tf.square(of_predicted.scores)
        return AdversarialTerms(
            _clip_means(error, mask, score_stride) * tf.reduce_sum(mask, [1, 2]),
            tf.stop_gradient(gradient / (norm + _SMALL)),
        )


def _clip_means(values: tf.Tensor, mask: tf.Tensor, frames_apart: int) -> tf.Tensor:
    """Return means over the real frames of each clip, [batch]; `values` have every nth frame."""
    inside = mask[:, ::frames_apart]  # [batch, frames / frames_apart, 1]
    values = tf.reduce_mean(values, list(range(2, values.shape.rank)))[:, :, None]
    return tf.reduce_sum(values * inside, [1, 2]) / tf.maximum(tf.reduce_sum(inside, [1, 2]), 1.0)


_CLASSIFIER_WIDTH = 192
_CLASSIFIER_BLOCKS = 4
_CLASSIFIER_KERNEL = 7


class Recognized(NamedTuple):
    logits: tf.Tensor  # [batch, positions, symbols]
    features: tf.Tensor  # [batch, positions, features]


class PhonemeClassifier(keras.layers.Layer):
    """Convolutions over positions, always in float32."""

    def __init__(self, symbols: int, channels: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self._channels = channels
        self.input_projection = keras.layers.Dense(_CLASSIFIER_WIDTH, name="input")
        self.blocks = [
            ConvBlock(_CLASSIFIER_WIDTH, _CLASSIFIER_KERNEL, name=f"block_{index}")
            for index in range(_CLASSIFIER_BLOCKS)
        ]
        self.symbol_projection = keras.layers.Dense(symbols, name="symbols")

    def build(self, input_shape: Any = None) -> None:
        self.input_projection.build((None, self._channels))
        for block in self.blocks:
            block.build()
        self.symbol_projection.build((None, _CLASSIFIER_WIDTH))

    def call(self, mel: tf.Tensor, mask: tf.Tensor) -> Recognized:
        """Classify `mel` [batch, positions, channels of a position] with its mask."""
        values = self.input_projection(mel)
        layers = []
        for block in self.blocks:
            values = block.call_whole(values * mask)
            layers.append(values)
        return Recognized(self.symbol_projection(values), tf.concat(layers, -1))

    def decoder_gradient(
        self, predicted: tf.Tensor, recorded: tf.Tensor, symbols: tf.Tensor, mask: tf.Tensor
    ) -> tf.Tensor:
        """Return the gradient for the predicted mel, with a norm of at most 1 per clip.

        It leads toward the features of the recording and toward the spoken symbols [batch,
        positions], as long as the recording is classified more confidently. Clips are scored
        separately, so micro-batches add up to the batch.
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
    """Return the mean over the real positions of each clip, [batch]."""
    error = tf.nn.sparse_softmax_cross_entropy_with_logits(symbols, logits)
    return masked_mean(error[:, :, None], mask)[:, 0]
