"""Discriminators for adversarial training of the vocoder: they tell copies from recordings.

Some look at the waveform folded at a prime period (as in HiFi-GAN), the others at a spectrogram
(as in UnivNet and EnCodec). They are small: with these losses most of a training step is theirs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

_PERIODS = (2, 3, 5, 7, 11)
_FFT_SAMPLES = (2_048, 1_024, 512)
_SLOPE = 0.1
# Exponent that compresses magnitudes, so that quiet parts count too.
_COMPRESSION = 0.5
_SMALL = 1e-4


class Judgement(NamedTuple):
    scores: list[tf.Tensor]
    """Of each discriminator, by place: positive means a recording."""
    features: list[tf.Tensor]
    """What the layers in between made of it."""


class _Convolution(keras.layers.Layer):
    def __init__(
        self,
        channels: tuple[int, int],
        kernel: tuple[int, int],
        strides: tuple[int, int],
        name: str,
    ) -> None:
        super().__init__(name=name)
        self._channels, self._kernel_size, self._strides = channels, kernel, strides

    def build(self, input_shape: Any = None) -> None:
        self.kernel = self.add_weight(name="kernel", shape=(*self._kernel_size, *self._channels))
        self.bias = self.add_weight(name="bias", shape=(self._channels[1],), initializer="zeros")

    def call(self, values: tf.Tensor, *, is_fixed: bool) -> tf.Tensor:
        """`is_fixed` keeps gradients from the weights: they judge, and do not learn."""
        kernel, bias = tf.convert_to_tensor(self.kernel), tf.convert_to_tensor(self.bias)
        if is_fixed:
            kernel, bias = tf.stop_gradient(kernel), tf.stop_gradient(bias)
        return tf.nn.conv2d(values, kernel, [1, *self._strides, 1], "SAME") + bias


class Discriminators(keras.layers.Layer):
    def __init__(self, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.of_periods = [_period_stack(width, period) for period in _PERIODS]
        self.of_spectra = [_spectrum_stack(width, size) for size in _FFT_SAMPLES]

    def build(self, input_shape: Any = None) -> None:
        for stack in (*self.of_periods, *self.of_spectra):
            for layer in stack:
                layer.build()

    def call(self, waveform: tf.Tensor, *, is_fixed: bool) -> Judgement:
        """[batch, samples], of a static number of samples."""
        judgement = Judgement([], [])
        for period, stack in zip(_PERIODS, self.of_periods, strict=True):
            rows = waveform.shape[1] // period
            folded = tf.reshape(waveform[:, : rows * period], [-1, rows, period, 1])
            _judge(stack, folded, judgement, is_fixed)
        for size, stack in zip(_FFT_SAMPLES, self.of_spectra, strict=True):
            _judge(stack, _compressed_spectrum(waveform, size), judgement, is_fixed)
        return judgement


def _period_stack(width: int, period: int) -> list[_Convolution]:
    widths = [1, width, 2 * width, 4 * width, 8 * width]
    stack = [
        _Convolution((inputs, outputs), (5, 1), (3, 1), f"period_{period}_{index}")
        for index, (inputs, outputs) in enumerate(itertools.pairwise(widths))
    ]
    return [
        *stack,
        _Convolution((widths[-1], widths[-1]), (5, 1), (1, 1), f"period_{period}_{len(stack)}"),
        _Convolution((widths[-1], 1), (3, 1), (1, 1), f"period_{period}_score"),
    ]


def _spectrum_stack(width: int, fft_samples: int) -> list[_Convolution]:
    sizes = [
        ((2, width), (3, 8), (1, 2)),
        ((width, width), (3, 8), (2, 2)),
        ((width, 2 * width), (3, 8), (1, 2)),
        ((2 * width, 2 * width), (3, 8), (2, 2)),
        ((2 * width, 2 * width), (3, 3), (1, 1)),
        ((2 * width, 1), (3, 3), (1, 1)),
    ]
    return [
        _Convolution(*size, f"spectrum_{fft_samples}_{index}") for index, size in enumerate(sizes)
    ]


def _compressed_spectrum(waveform: tf.Tensor, fft_samples: int) -> tf.Tensor:
    """[batch, frames, bins, 2]: real and imaginary parts."""
    spectrum = tf.signal.stft(waveform, fft_samples, fft_samples // 4, fft_samples)
    scale = (2.0 / fft_samples) ** 0.5
    parts = tf.stack([tf.math.real(spectrum), tf.math.imag(spectrum)], -1)[:, :, :-1] * scale
    power = tf.reduce_sum(tf.square(parts), -1, keepdims=True)
    return parts * tf.pow(power + _SMALL**2, (_COMPRESSION - 1.0) / 2)


def _judge(
    stack: Sequence[_Convolution], values: tf.Tensor, judgement: Judgement, is_fixed: bool
) -> None:
    *layers, last = stack
    for layer in layers:
        values = tf.nn.leaky_relu(layer(values, is_fixed=is_fixed), _SLOPE)
        judgement.features.append(values)
    judgement.scores.append(last(values, is_fixed=is_fixed))
