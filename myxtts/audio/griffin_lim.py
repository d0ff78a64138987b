"""Griffin-Lim: waveforms that have given magnitudes, and log-mels to waveforms without a network.

The magnitudes of a mel are estimated by multiplicative non-negative least squares, and phases by
fast Griffin-Lim (with momentum). The result is intelligible to ASR models.

The high frequencies of speech are mostly noise, whose magnitudes fluctuate. A network learns their
mean, which sounds metallic. So the fluctuation is taken from the white noise whose phases the
search starts from.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import (
    FloatArray,
    add_frames,
    cut_frames,
    hann_window,
    inverse_window,
    mel_weights,
    padding_samples,
)
from myxtts.config.config import AudioConfig

SPEAKING_ITERATIONS = 32
# Exponent of the noise fluctuation. It compensates for what the search and the refiner remove.
SPEAKING_EMPHASIS = 1.25
_FELT_ITERATIONS = 8
# Perraudin et al. (2013).
_MOMENTUM = 0.99
# Below this range harmonics dominate and magnitudes are unchanged; above it, noise dominates.
_FROM_HARMONICS_TO_NOISE_HZ = (2_500.0, 3_500.0)
# Mean log-magnitude of complex white noise with variance one.
_MEAN_LOG_OF_NOISE = -np.euler_gamma / 2
_SMALL = 1e-6
_SMALL_POWER = 1e-8


class GriffinLim:
    """Vocoder for the mels of an audio configuration."""

    def __init__(
        self, audio: AudioConfig, *, phase_iterations: int = 60, spectrum_iterations: int = 80
    ) -> None:
        self._audio = audio
        self._iterations = phase_iterations, spectrum_iterations

    def samples(self, log_mel: FloatArray, *, seed: int = 0) -> FloatArray:
        frames = tf.convert_to_tensor(log_mel, tf.float32)
        invert = _inversion(self._audio, int(frames.shape[-1]), *self._iterations)
        waveform: FloatArray = invert(frames, tf.constant([seed, 0], tf.int32)).numpy()
        return waveform


@functools.lru_cache(maxsize=8)
def _inversion(
    audio: AudioConfig, n_mels: int, phase_iterations: int, spectrum_iterations: int
) -> Any:
    """Return one compiled function for all lengths."""
    weights = mel_weights(audio, n_mels)  # [bins, mels]

    def invert(log_mel: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        magnitudes = spectrum_from_mel(tf.exp(log_mel), weights, spectrum_iterations)
        samples = (tf.shape(log_mel)[0] - 1) * audio.hop_samples
        noise = tf.random.stateless_normal([1, samples], seed, alg="philox")
        return waveform_with_magnitudes(
            magnitudes[None], noise, audio, phase_iterations, emphasis=0.0
        )[0]

    signature = [tf.TensorSpec([None, n_mels], tf.float32), tf.TensorSpec([2], tf.int32)]
    return tf.function(invert, input_signature=signature, autograph=False)


def spectrum_from_mel(mel: tf.Tensor, weights: FloatArray, iterations: int) -> tf.Tensor:
    """Return the non-negative spectrum [frames, bins] with the mel closest to [frames, mels]."""
    target = tf.matmul(mel, weights, transpose_b=True)  # [frames, bins]
    gram = tf.constant(weights @ weights.T)  # [bins, bins]
    covered = tf.constant((weights.sum(axis=1) > 0).astype(np.float32))

    def refine(step: tf.Tensor, spectrum: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return step + 1, spectrum * target / (tf.matmul(spectrum, gram) + _SMALL_POWER)

    _, spectrum = tf.while_loop(
        lambda step, _: step < iterations,
        refine,
        (tf.constant(0), tf.sqrt(target) * covered + _SMALL_POWER),
    )
    return spectrum * covered


def spectrum(waveform: tf.Tensor, audio: AudioConfig) -> tf.Tensor:
    """Transform [batch, samples] to [batch, frames, bins], with frames centered as in a mel."""
    return _spectrum(tf.pad(waveform, [[0, 0], padding_samples(audio)]), audio)


def context_frames(audio: AudioConfig) -> int:
    """Return the number of frames on either side that a frame depends on.

    Every iteration reaches one overlap farther, but beyond `_FELT_ITERATIONS` the effect on
    samples is below rounding.
    """
    return _FELT_ITERATIONS * overlapping_frames(audio)


def overlapping_frames(audio: AudioConfig) -> int:
    """Return the number of frames on either side that share samples with a frame."""
    return (audio.fft_samples - 1) // audio.hop_samples


def waveform_with_magnitudes(
    magnitudes: tf.Tensor,
    noise: tf.Tensor,
    audio: AudioConfig,
    iterations: int = SPEAKING_ITERATIONS,
    emphasis: float = SPEAKING_EMPHASIS,
) -> tf.Tensor:
    """Find phases for magnitudes [batch, frames, bins] and return [batch, samples].

    The samples reach from the first to the last frame. The search begins with the phases of white
    noise, [batch, samples]. `emphasis` is the power of
    its fluctuation.
    """
    start = spectrum(noise, audio)
    magnitudes *= fluctuation(squared_magnitude(start), audio, emphasis)
    first = _waveform(_with_magnitudes(start, magnitudes), audio)

    def improve(waveform: tf.Tensor) -> tf.Tensor:
        return _waveform(_with_magnitudes(_spectrum(waveform, audio), magnitudes), audio)

    return _without_padding(search_phases(first, improve, iterations), audio)


def search_phases(
    first: tf.Tensor, improve: Callable[[tf.Tensor], tf.Tensor], iterations: int
) -> tf.Tensor:
    """Iterate fast Griffin-Lim: impose the target magnitudes on a waveform, with momentum.

    `improve` returns the waveform with its own phases and the target magnitudes.
    """

    def advance(waveform: tf.Tensor, previous: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # The momentum of the spectrum is that of the waveform, which has fewer numbers.
        better = improve(waveform + _MOMENTUM * (waveform - previous))
        return tf.ensure_shape(better, waveform.shape), waveform

    # A loop in the graph: one that is unrolled takes seconds to trace.
    waveform, _ = tf.while_loop(
        lambda *_: True, advance, (first, first), maximum_iterations=iterations
    )
    return waveform


def waveform_of(spectrum: tf.Tensor, audio: AudioConfig) -> tf.Tensor:
    """Invert a spectrum to [batch, samples from the first to the last frame]."""
    return _without_padding(_waveform(spectrum, audio), audio)


def fluctuation(
    of_noise: tf.Tensor, audio: AudioConfig, emphasis: float = SPEAKING_EMPHASIS
) -> tf.Tensor:
    """Return factors with geometric mean one that fluctuate like noise where speech is noise.

    `of_noise` are the squared magnitudes of white noise with variance one.
    """
    power = np.sum(np.square(hann_window(audio.fft_samples)))
    log_mean = np.log(power) / 2 + _MEAN_LOG_OF_NOISE
    hertz = np.fft.rfftfreq(audio.fft_samples, 1 / audio.sample_rate_hz)
    share = np.interp(hertz, _FROM_HARMONICS_TO_NOISE_HZ, (0.0, emphasis)).astype(np.float32)
    logarithm = tf.math.log(of_noise + _SMALL) / 2 - log_mean
    return tf.exp(share * logarithm)


def _spectrum(padded: tf.Tensor, audio: AudioConfig) -> tf.Tensor:
    frames = cut_frames(padded, audio.fft_samples, audio.hop_samples)
    return tf.signal.rfft(frames * hann_window(audio.fft_samples), name="stft")


def _waveform(spectrum: tf.Tensor, audio: AudioConfig) -> tf.Tensor:
    frames = tf.signal.irfft(spectrum, [audio.fft_samples])
    undo = inverse_window(audio.fft_samples, audio.hop_samples)
    return add_frames(frames * undo, audio.hop_samples)


def _without_padding(waveform: tf.Tensor, audio: AudioConfig) -> tf.Tensor:
    before, after = padding_samples(audio)
    return waveform[:, before : tf.shape(waveform)[1] - after]


def _with_magnitudes(spectrum: tf.Tensor, magnitudes: tf.Tensor) -> tf.Tensor:
    scale = magnitudes * tf.math.rsqrt(squared_magnitude(spectrum) + _SMALL**2)
    return spectrum * tf.cast(scale, spectrum.dtype)


def squared_magnitude(spectrum: tf.Tensor) -> tf.Tensor:
    """Return squared magnitudes, faster than by tf.abs, which avoids overflow."""
    return tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))


class Vocoder(Protocol):
    def samples(self, log_mel: FloatArray, *, seed: int = 0) -> FloatArray:
        """Return samples in [-1, 1] for a mel [frames, mels]; deterministic for a seed."""


@runtime_checkable
class StreamingVocoder(Vocoder, Protocol):
    """A vocoder that generates samples while the mel is still arriving."""

    def stream(self, log_mels: Iterable[FloatArray], *, seed: int = 0) -> Iterator[FloatArray]:
        """Convert chunks [frames, mels]; joined, the samples equal those of the whole mel."""
