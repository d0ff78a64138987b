"""Tells copied waveforms from recorded ones by their spectra, with short and with long windows.

The search for phases keeps to the magnitudes of one window length. What it gets wrong shows with
others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.audio.frames import cut_frames, hann_window
from myxtts.audio.griffin_lim import squared_magnitude
from myxtts.config.config import AudioConfig
from myxtts.models.discriminator import add_convolution_weights


class _Convolution(NamedTuple):
    channels: int
    kernel_size: tuple[int, int]  # frames, bins
    stride: tuple[int, int]


_CONVOLUTIONS = (
    _Convolution(12, (3, 7), (1, 2)),
    _Convolution(24, (3, 5), (2, 2)),
    _Convolution(32, (3, 3), (2, 2)),
    _Convolution(48, (3, 3), (1, 2)),
    _Convolution(1, (3, 3), (1, 1)),
)
# The level, and how high each bin is.
_INPUT_CHANNELS = 2
_NEGATIVE_SLOPE = 0.2
# Of the lengths of windows to that of the mel, and of windows to their hop.
_WINDOW_RATIOS = (0.5, 1.25)
_OVERLAP = 4
# Levels of speech in nepers have about this mean and deviation; quieter ones hardly count.
_LEVEL_MEAN, _LEVEL_DEVIATION, _LEAST_LEVEL = -4.0, 2.0, 5e-4
_FEATURE_MATCHING_WEIGHT = 2.0
_SMALL = 1e-9


class Judgement(NamedTuple):
    scores: tf.Tensor  # [batch, frames / 4, bins / 16]: 1 is recorded, 0 is a copy
    features: list[tf.Tensor]


class AdversarialErrors(NamedTuple):
    """[batch] each."""

    of_discriminator: tf.Tensor
    of_copy: tf.Tensor


class SpectrumDiscriminator(keras.layers.Layer):
    """A stack of two-dimensional convolutions over frames and bins, always in float32."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)

    def build(self, input_shape: Any = None) -> None:
        sizes = ((*it.kernel_size, it.channels) for it in _CONVOLUTIONS)
        self.kernels, self.biases = add_convolution_weights(self, _INPUT_CHANNELS, sizes)

    def call(self, levels: tf.Tensor) -> Judgement:
        """Of what `log_levels` gives."""
        height = tf.broadcast_to(tf.linspace(-1.0, 1.0, tf.shape(levels)[2]), tf.shape(levels))
        values = tf.stack([(levels - _LEVEL_MEAN) / _LEVEL_DEVIATION, height], -1)
        features: list[tf.Tensor] = []
        for (_, size, stride), kernel, bias in zip(
            _CONVOLUTIONS, self.kernels, self.biases, strict=True
        ):
            if features:
                values = tf.nn.leaky_relu(values, _NEGATIVE_SLOPE)
            margins = [[0, 0], *([length // 2] * 2 for length in size), [0, 0]]
            values = tf.nn.conv2d(values, tf.convert_to_tensor(kernel), stride, margins)
            values = tf.nn.bias_add(values, tf.convert_to_tensor(bias))
            features.append(values)
        return Judgement(features.pop()[..., 0], features)

    def errors(self, copied: tf.Tensor, recorded: tf.Tensor) -> AdversarialErrors:
        """Least-squares errors for levels; each clip is judged by itself."""
        of_copied, of_recorded = self(copied), self(recorded)
        features = tf.zeros([])
        for ours, theirs in zip(of_copied.features, of_recorded.features, strict=True):
            theirs = tf.stop_gradient(theirs)
            features += _clip_means(tf.abs(ours - theirs)) / (_clip_means(tf.abs(theirs)) + _SMALL)
        return AdversarialErrors(
            _clip_means(tf.square(of_recorded.scores - 1.0))
            + _clip_means(tf.square(of_copied.scores)),
            _clip_means(tf.square(of_copied.scores - 1.0)) + _FEATURE_MATCHING_WEIGHT * features,
        )


def window_lengths(audio: AudioConfig) -> tuple[int, ...]:
    """In samples, each a multiple of its overlap."""
    return tuple(round(audio.fft_samples * ratio / _OVERLAP) * _OVERLAP for ratio in _WINDOW_RATIOS)


def log_levels(waveform: tf.Tensor, window_samples: int) -> tf.Tensor:
    """Of [batch, samples]: logarithms of magnitudes, [batch, frames, bins]."""
    frames = cut_frames(waveform, window_samples, window_samples // _OVERLAP)
    power = squared_magnitude(tf.signal.rfft(frames * hann_window(window_samples)))
    return tf.math.log(tf.sqrt(power * (2.0 / window_samples) + _SMALL) + _LEAST_LEVEL)


def _clip_means(values: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(values, list(range(1, values.shape.rank)))
