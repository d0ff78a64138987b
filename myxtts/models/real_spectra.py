"""Short-time spectra without complex numbers and FFTs, which other runtimes than TensorFlow lack.

Products with matrices of cosines and sines give the same numbers, several times slower.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from myxtts.audio.frames import hann_window, inverse_window
from myxtts.audio.griffin_lim import search_phases
from myxtts.audio.mel_geometry import padding_samples
from myxtts.config.config import AudioConfig
from myxtts.errors import CheckpointError

_SMALL = 1e-8

_Spectrum = tuple[tf.Tensor, tf.Tensor]


class RealSpectra:
    def __init__(self, audio: AudioConfig) -> None:
        size, hop = audio.fft_samples, audio.hop_samples
        if size % hop:
            raise CheckpointError(
                f"audio.fft_samples is {size}, expected a multiple of audio.hop_samples ({hop}) "
                "for an export"
            )
        self._audio, self._hop, self._overlap = audio, hop, size // hop
        bins = np.arange(size // 2 + 1)
        angles = 2 * np.pi * np.outer(np.arange(size), bins) / size
        window = hann_window(size)[:, None]
        # Arrays and not tensors: those of eager mode are inputs of a graph, not a part of it.
        self._cosines = (np.cos(angles) * window).astype(np.float32)  # [size, bins]
        self._sines = (-np.sin(angles) * window).astype(np.float32)
        # Bins between the first and the last stand for two of the whole spectrum.
        twice = np.where((bins == 0) | (bins == size // 2), 1.0, 2.0)[:, None] / size
        undo = inverse_window(size, hop)
        self._from_real = (twice * np.cos(angles).T * undo).astype(np.float32)
        self._from_imaginary = (-twice * np.sin(angles).T * undo).astype(np.float32)

    def analyse(self, samples: tf.Tensor) -> _Spectrum:
        """Real and imaginary part, [frames, bins] each; the samples include the padding."""
        blocks = tf.reshape(samples, [-1, self._hop])
        frames = tf.shape(blocks)[0] - self._overlap + 1
        framed = tf.concat([blocks[index : index + frames] for index in range(self._overlap)], -1)
        return tf.matmul(framed, self._cosines), tf.matmul(framed, self._sines)

    def synthesise(self, real: tf.Tensor, imaginary: tf.Tensor) -> tf.Tensor:
        """Samples with the padding."""
        framed = tf.matmul(real, self._from_real) + tf.matmul(imaginary, self._from_imaginary)
        parts = tf.split(framed, self._overlap, -1)
        last = self._overlap - 1
        blocks = [tf.pad(part, [[index, last - index], [0, 0]]) for index, part in enumerate(parts)]
        return tf.reshape(tf.add_n(blocks), [-1])

    def with_magnitudes(
        self, magnitudes: tf.Tensor, noise: tf.Tensor, iterations: int
    ) -> tf.Tensor:
        """Samples from the first to the last frame.

        The search begins with the phases of `noise`, [samples with the padding].
        """

        def improve(samples: tf.Tensor) -> tf.Tensor:
            return self.synthesise(*_scaled(*self.analyse(samples), magnitudes))

        return self.without_padding(search_phases(improve(noise), improve, iterations))

    def without_padding(self, samples: tf.Tensor) -> tf.Tensor:
        before, after = padding_samples(self._audio)
        return samples[before : tf.shape(samples)[0] - after]


def _scaled(real: tf.Tensor, imaginary: tf.Tensor, magnitudes: tf.Tensor) -> _Spectrum:
    scale = magnitudes / (tf.sqrt(tf.square(real) + tf.square(imaginary)) + _SMALL)
    return real * scale, imaginary * scale
