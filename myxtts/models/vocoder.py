"""The vocoder network: from a log-mel to a waveform.

A mel blurs what lies within a band, harmonics above all. The first guess of the magnitudes of a
short-time spectrum is the mel itself, by the pseudo-inverse of its bands (as in FreeV, 2024), so
that only the difference is learnt. The result is scaled so that its mel is the given one. Phases
that fit the magnitudes are found by `audio.griffin_lim`; a second network, the refiner, corrects
what the search leaves. Only convolutions mix frames, so it works at any length.
"""

from __future__ import annotations

from typing import NamedTuple

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.audio.griffin_lim import (
    SPEAKING_ITERATIONS,
    context_frames,
    overlapping_frames,
    spectrum,
    waveform_of,
    waveform_with_magnitudes,
)
from myxtts.audio.mel import mel_weights, used_bins
from myxtts.config.config import XTTSConfig
from myxtts.models.layers import ConvBlock, dense, root_mean_square_norm
from myxtts.models.refiner import KERNEL_FRAMES, Spectrum, SpectrumRefiner

# Log-mels of speech at the usual level have about this mean and deviation.
_MEL_MEAN, _MEL_DEVIATION = -5.5, 2.5
_LEAST_AMPLITUDE, _MOST_LOG_AMPLITUDE = 1e-4, 6.0
# Bands at the upper edge whose mean continues above it.
_EDGE_BINS = 12
_SMALL = 1e-8


class Prediction(NamedTuple):
    magnitudes: tf.Tensor  # [batch, frames, bins]
    states: tf.Tensor  # [batch, frames, width]: what the network found out about each frame


class VocoderNetwork(keras.Model):
    def __init__(self, config: XTTSConfig, *, precision: str = "float32") -> None:
        super().__init__(name="vocoder")
        policy = keras.DTypePolicy(precision if precision == "float32" else f"mixed_{precision}")
        sizes = config.vocoder
        self.audio = config.audio
        self.n_mels = config.data.n_mels
        self._width = sizes.width
        self._bins = config.audio.fft_samples // 2 + 1
        weights = mel_weights(config.audio, self.n_mels)
        # The highest bin of the highest band has next to no weight in it.
        self._covered_bins = used_bins(weights) - 1
        self._from_mel = _pseudo_inverse(weights)
        self._to_mel = weights
        # Shares of the bands in each bin; bins in no band are not scaled.
        shares = weights / np.maximum(weights.sum(1, keepdims=True), _SMALL)
        self._shares_of_bands = shares.T.astype(np.float32)
        self._in_no_band = (weights.sum(1) == 0).astype(np.float32)
        self.widen = keras.layers.Dense(sizes.width, dtype=policy, name="widen")
        self.blocks = [
            ConvBlock(sizes.width, KERNEL_FRAMES, dtype=policy, name=f"block_{index}")
            for index in range(sizes.blocks)
        ]
        small = keras.initializers.RandomNormal(stddev=0.01)
        self.project = keras.layers.Dense(self._bins, kernel_initializer=small, name="project")
        self.refiner = SpectrumRefiner(
            config.audio, sizes.width, sizes.refining_blocks, dtype=policy, name="refiner"
        )
        # Frames on either side that the samples of a frame depend on.
        self.context_frames = (
            sizes.blocks * (KERNEL_FRAMES // 2)
            + context_frames(config.audio)
            + self.refiner.context_frames
            + 2 * overlapping_frames(config.audio)
        )
        self._build()

    def _build(self) -> None:
        self.widen.build((None, self.n_mels))
        for block in self.blocks:
            block.build()
        self.project.build((None, self._width))
        self.refiner.build()
        self.built = True

    def waveform(
        self, log_mel: tf.Tensor, noise: tf.Tensor, iterations: int = SPEAKING_ITERATIONS
    ) -> tf.Tensor:
        """[batch, frames, mels] -> [batch, samples from the first to the last frame].

        The search for phases begins with those of white noise, [batch, samples].
        """
        magnitudes, states = self.predict_magnitudes(log_mel)
        found = waveform_with_magnitudes(magnitudes, noise, self.audio, iterations)
        return self.refined(found, states)

    def refined(self, waveform: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
        """A waveform whose phases were found by a search, [batch, samples]."""
        found = spectrum(waveform, self.audio)
        parts = self.refiner(Spectrum(tf.math.real(found), tf.math.imag(found)), states)
        return waveform_of(tf.complex(*parts), self.audio)

    def predict_magnitudes(self, log_mel: tf.Tensor) -> Prediction:
        values = tf.cast(dense(self.widen, (log_mel - _MEL_MEAN) / _MEL_DEVIATION), tf.float32)
        for block in self.blocks:
            values = block.call_whole(values)
        values = root_mean_square_norm(values)
        difference = dense(self.project, values)
        logarithm = tf.minimum(self._log_amplitude(log_mel) + difference, _MOST_LOG_AMPLITUDE)
        magnitudes = tf.exp(logarithm)
        ratio = tf.exp(log_mel) / (tf.matmul(magnitudes, self._to_mel) + _SMALL)
        magnitudes *= tf.matmul(ratio, self._shares_of_bands) + self._in_no_band
        return Prediction(magnitudes, values)

    def _log_amplitude(self, log_mel: tf.Tensor) -> tf.Tensor:
        """Of the bins, by the mel; bins above the highest band have the level below its edge."""
        amplitude = tf.matmul(tf.exp(log_mel), self._from_mel[:, : self._covered_bins])
        amplitude = tf.maximum(amplitude, _LEAST_AMPLITUDE)
        edge = tf.reduce_mean(amplitude[..., -_EDGE_BINS:], -1, keepdims=True)
        above = tf.repeat(edge, self._bins - self._covered_bins, axis=-1)
        return tf.math.log(tf.concat([amplitude, above], -1))


def _pseudo_inverse(weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Of [bins, mels]; by way of the small product of the bands with each other, which is a tenth
    of the work.
    """
    wide = weights.astype(np.float64)
    return (np.linalg.pinv(wide.T @ wide, hermitian=True) @ wide.T).astype(np.float32)
