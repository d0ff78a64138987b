"""Corrects a spectrum whose phases were found by a search: a factor and a rotation for every bin.

A search leaves phases that do not quite fit each other, and magnitudes are the means of what a mel
may stand for. Both are heard. What tells them from those of a recording is how phases advance from
frame to frame and from bin to bin, so that is what the network sees beside the magnitudes.

Complex numbers are pairs of real ones here, for the sake of runtimes that have no others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from myxtts.config.config import AudioConfig
from myxtts.models.layers import ConvBlock, dense, root_mean_square_norm

KERNEL_FRAMES = 7
# Speech has harmonics in the lower half of the spectrum. Above, it is noise, whose phases are as
# good as any.
_SHARE_WITH_PHASES = 0.5
# Levels of speech in nepers have about this mean and deviation.
_LEVEL_MEAN, _LEVEL_DEVIATION = -4.0, 2.0
# Quieter bins hardly count. Fewer count with their phases, for those of the quietest depend on how
# sums were rounded, and so on how a mel was cut into chunks.
_LEAST_LEVEL, _LEAST_LEVEL_WITH_PHASE = 5e-4, 2e-3
_LEAST_LOG_FACTOR, _MOST_LOG_FACTOR = -6.0, 3.0


class Spectrum(NamedTuple):
    """[batch, frames, bins] each."""

    real: tf.Tensor
    imaginary: tf.Tensor


class SpectrumRefiner(keras.layers.Layer):
    """Starts as the identity."""

    def __init__(self, audio: AudioConfig, width: int, blocks: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        policy = self.dtype_policy
        self._width = width
        self._bins = audio.fft_samples // 2 + 1
        self._bins_with_phases = round(self._bins * _SHARE_WITH_PHASES)
        # White noise then has the level of its samples.
        self._level_scale = (2.0 / audio.fft_samples) ** 0.5
        # How far the phase of each bin's own frequency advances in a hop.
        turns = np.arange(self._bins_with_phases) * audio.hop_samples / audio.fft_samples
        self._advance = np.exp(-2j * np.pi * turns).astype(np.complex64)
        self.widen = keras.layers.Dense(width, dtype=policy, name="widen")
        self.blocks = [
            ConvBlock(width, KERNEL_FRAMES, dtype=policy, name=f"block_{index}")
            for index in range(blocks)
        ]
        self.project = keras.layers.Dense(
            self._bins + self._bins_with_phases, kernel_initializer="zeros", name="project"
        )
        # Frames on either side that a refined frame depends on.
        self.context_frames = blocks * (KERNEL_FRAMES // 2) + 1

    def build(self, input_shape: Any = None) -> None:
        self.widen.build((None, self._bins + 4 * self._bins_with_phases + self._width))
        for block in self.blocks:
            block.build()
        self.project.build((None, self._width))

    def call(self, spectrum: Spectrum, states: tf.Tensor) -> Spectrum:
        """`states` [batch, frames, width] are those of the network that predicted magnitudes."""
        values = tf.concat([*self._features(spectrum), states], -1)
        values = tf.cast(dense(self.widen, values), tf.float32)
        for block in self.blocks:
            values = block.call_whole(values)
        outputs = dense(self.project, root_mean_square_norm(values))
        log_factor, angle = tf.split(outputs, [self._bins, self._bins_with_phases], -1)
        factor = tf.exp(tf.clip_by_value(log_factor, _LEAST_LOG_FACTOR, _MOST_LOG_FACTOR))
        angle = tf.pad(angle, [[0, 0], [0, 0], [0, self._bins - self._bins_with_phases]])
        cosine, sine = factor * tf.cos(angle), factor * tf.sin(angle)
        real, imaginary = spectrum
        return Spectrum(real * cosine - imaginary * sine, real * sine + imaginary * cosine)

    def _features(self, spectrum: Spectrum) -> list[tf.Tensor]:
        power = (tf.square(spectrum.real) + tf.square(spectrum.imaginary)) * self._level_scale**2
        level = tf.math.log(power + _LEAST_LEVEL**2) / 2.0
        bins = self._bins_with_phases
        size = tf.math.rsqrt(power[..., :bins] + _LEAST_LEVEL_WITH_PHASE**2) * self._level_scale
        real, imaginary = spectrum.real[..., :bins] * size, spectrum.imaginary[..., :bins] * size
        over_time = _product_with_conjugate(
            real[:, 1:], imaginary[:, 1:], real[:, :-1], imaginary[:, :-1]
        )
        advance = self._advance.real, self._advance.imag
        over_time = Spectrum(
            over_time.real * advance[0] - over_time.imaginary * advance[1],
            over_time.real * advance[1] + over_time.imaginary * advance[0],
        )
        over_bins = _product_with_conjugate(
            real[..., 1:], imaginary[..., 1:], real[..., :-1], imaginary[..., :-1]
        )
        return [
            (level - _LEVEL_MEAN) / _LEVEL_DEVIATION,
            *(tf.pad(part, [[0, 0], [1, 0], [0, 0]]) for part in over_time),
            # Frames are centred, so neighbouring bins of a single tone have opposite signs.
            *(tf.pad(-part, [[0, 0], [0, 0], [0, 1]]) for part in over_bins),
        ]


def _product_with_conjugate(
    real: tf.Tensor, imaginary: tf.Tensor, other_real: tf.Tensor, other_imaginary: tf.Tensor
) -> Spectrum:
    return Spectrum(
        real * other_real + imaginary * other_imaginary,
        imaginary * other_real - real * other_imaginary,
    )
