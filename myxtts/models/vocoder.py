"""The vocoder network: from a log-mel to a waveform.

A mel blurs what lies within a band, harmonics above all. The first guess of the magnitudes of a
short-time spectrum is the mel itself, by the pseudo-inverse of its bands (as in FreeV, 2024), so
that only the difference is learnt. The result is scaled so that its mel is the given one. Phases
that fit the magnitudes are found by `audio.griffin_lim`; a second network, the refiner, corrects
what the search leaves. Only convolutions mix frames, so it works at any length.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.audio.griffin_lim import (
    SPEAKING_ITERATIONS,
    context_frames,
    overlapping_frames,
    search_phases,
    spectrum,
    waveform_of,
    waveform_with_magnitudes,
)
from myxtts.audio.mel import LOG_FLOOR, hann_window, inverse_window, mel_weights, used_bins
from myxtts.audio.mel_geometry import padding_samples
from myxtts.config.config import AudioConfig, XTTSConfig
from myxtts.errors import CheckpointError
from myxtts.models.layers import ConvBlock, dense, root_mean_square_norm

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


# Log-mels of speech at the usual level have about this mean and deviation.
_MEL_MEAN, _MEL_DEVIATION = -5.5, 2.5
_LEAST_AMPLITUDE, _MOST_LOG_AMPLITUDE = 1e-4, 6.0
# Bands at the upper edge whose mean continues above it.
_EDGE_BINS = 12


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


FloatArray = npt.NDArray[np.float32]

_NOISE_SAMPLES = 1 << 18


class NeuralVocoder:
    """Implements Vocoder; one compiled function for all lengths."""

    def __init__(self, network: VocoderNetwork, *, compiled: bool = True) -> None:
        """Without `compiled` the first mel is spoken sooner, and all others later."""
        self.network = network
        # Before and after a mel: as many as a sample is part of, and one to spare.
        self._silent_frames = overlapping_frames(network.audio) + 2
        self._traced = tf.function(
            self._window,
            input_signature=[
                tf.TensorSpec([None, network.n_mels], tf.float32),
                tf.TensorSpec([None], tf.float32),
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec([], tf.int32),
            ],
            autograph=False,
        )
        self._speak = self._traced if compiled else self._traced.python_function

    @property
    def traces(self) -> int:
        """How often TensorFlow traced the function."""
        count: int = self._traced.experimental_get_tracing_count()
        return count

    def samples(self, log_mel: FloatArray, *, seed: int = 0) -> FloatArray:
        chunks = self._samples_of([(log_mel, True)], seed)
        return np.concatenate([np.zeros(0, np.float32), *chunks])

    def stream(self, log_mels: Iterable[FloatArray], *, seed: int = 0) -> Iterator[FloatArray]:
        """The samples of a mel that arrives in chunks, [frames, mels] each.

        Joined, they equal those of the whole mel. The last frames of a chunk wait for the next.
        """
        nothing = np.zeros((0, self.network.n_mels), np.float32)
        chunks = ((chunk, False) for chunk in log_mels)
        yield from self._samples_of(chain(chunks, [(nothing, True)]), seed)

    def _samples_of(
        self, chunks: Iterable[tuple[FloatArray, bool]], seed: int
    ) -> Iterator[FloatArray]:
        """Chunks of a mel, and whether each is the last."""
        hop = self.network.audio.hop_samples
        shape = self._silent_frames, self.network.n_mels
        silence = np.full(shape, np.log(LOG_FLOOR), np.float32)
        window = silence
        noise_start = int(np.random.default_rng(seed).integers(_NOISE_SAMPLES))
        before = self._silent_frames
        for chunk, is_last in chunks:
            window = np.concatenate([window, chunk, *([silence] if is_last else [])])
            after = self._silent_frames if is_last else self.network.context_frames
            spoken = len(window) - 1 - before - after
            if spoken < 1:
                continue
            noise = _noise(noise_start, (len(window) - 1) * hop)
            yield self._speak(window, noise, before, after).numpy()
            left_behind = max(before + spoken - self.network.context_frames, 0)
            window = window[left_behind:]
            noise_start += left_behind * hop
            before += spoken - left_behind

    def _window(
        self, log_mel: tf.Tensor, noise: tf.Tensor, before: tf.Tensor, after: tf.Tensor
    ) -> tf.Tensor:
        """Samples of all frames but some at both ends."""
        hop = self.network.audio.hop_samples
        samples = self.network.waveform(log_mel[None], noise[None])[0]
        return samples[before * hop : tf.size(samples) - after * hop]


@functools.cache
def _noise_table() -> FloatArray:
    return np.random.default_rng(0).standard_normal(_NOISE_SAMPLES, np.float32)


def _noise(first: int, count: int) -> FloatArray:
    """White noise that does not depend on how it is cut into chunks."""
    return np.take(_noise_table(), np.arange(first, first + count), mode="wrap")
