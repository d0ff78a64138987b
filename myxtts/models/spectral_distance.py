"""How far two waveforms are from each other in their spectrograms, at several resolutions."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

_FFT_SAMPLES = (2_048, 1_024, 512, 256, 128)
# Weight of the magnitudes beside their logarithms.
_LINEAR_WEIGHT = 2.0
# Quieter parts of a spectrum hardly count; speech at the usual level is at 0.06.
_LOG_FLOOR = 5e-4
_SMALL = 1e-9


class Spectrogram(NamedTuple):
    magnitude: tf.Tensor  # [batch, frames, bins]
    log_magnitude: tf.Tensor


def spectrograms(waveform: tf.Tensor) -> list[Spectrogram]:
    """[batch, samples] at every resolution, scaled so that noise has the same level in each."""
    result = []
    for size in _FFT_SAMPLES:
        spectrum = tf.signal.stft(waveform, size, size // 4, size)
        power = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
        magnitude = tf.sqrt(power * (2.0 / size) + _SMALL)
        result.append(Spectrogram(magnitude, tf.math.log(magnitude + _LOG_FLOOR)))
    return result


def spectral_distance(these: list[Spectrogram], others: list[Spectrogram]) -> tf.Tensor:
    """[batch]: the mean over resolutions."""
    distances = []
    for one, other in zip(these, others, strict=True):
        linear = tf.reduce_mean(tf.abs(one.magnitude - other.magnitude), [1, 2])
        squares = tf.reduce_mean(tf.square(one.log_magnitude - other.log_magnitude), 2)
        logarithmic = tf.reduce_mean(tf.sqrt(squares + _SMALL), 1)
        distances.append(_LINEAR_WEIGHT * linear + logarithmic)
    return tf.add_n(distances) / len(distances)
