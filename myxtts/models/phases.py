"""Short-time spectra of waveforms, and phases that fit given magnitudes (fast Griffin-Lim)."""

from __future__ import annotations

import tensorflow as tf

from myxtts.audio.mel_geometry import padding_samples
from myxtts.config.config import AudioConfig

SPEAKING_ITERATIONS = 16
# Perraudin et al. (2013).
_MOMENTUM = 0.99
# Keeps gradients of quiet bins finite.
_SMALL = 1e-6


def spectrum(waveform: tf.Tensor, audio: AudioConfig) -> tf.Tensor:
    """[..., samples] -> [..., frames, bins], frames centred as in a mel."""
    no_padding = [[0, 0]] * (waveform.shape.rank - 1)
    return _spectrum(tf.pad(waveform, [*no_padding, padding_samples(audio)]), audio)


def context_frames(audio: AudioConfig) -> int:
    """Frames on either side that a frame depends on after all iterations."""
    overlap = (audio.fft_samples - 1) // audio.hop_samples
    return (SPEAKING_ITERATIONS + 1) * overlap


def waveform_with_magnitudes(
    magnitudes: tf.Tensor,
    noise: tf.Tensor,
    audio: AudioConfig,
    iterations: int = SPEAKING_ITERATIONS,
) -> tf.Tensor:
    """[batch, frames, bins] -> [batch, samples from the first to the last frame].

    The search begins with the phases of white noise, [batch, samples].
    """
    guess = _with_magnitudes(spectrum(noise, audio), magnitudes)
    previous = tf.zeros_like(guess)
    for _ in range(iterations):
        consistent = _spectrum(_waveform(guess, audio), audio)
        leap = consistent + _MOMENTUM * (consistent - previous)
        guess, previous = _with_magnitudes(leap, magnitudes), consistent
    before, after = padding_samples(audio)
    waveform = _waveform(guess, audio)
    return waveform[:, before : tf.shape(waveform)[1] - after]


def _spectrum(padded: tf.Tensor, audio: AudioConfig) -> tf.Tensor:
    return tf.signal.stft(padded, audio.fft_samples, audio.hop_samples, audio.fft_samples)


def _waveform(spectrum: tf.Tensor, audio: AudioConfig) -> tf.Tensor:
    return tf.signal.inverse_stft(
        spectrum,
        audio.fft_samples,
        audio.hop_samples,
        audio.fft_samples,
        window_fn=tf.signal.inverse_stft_window_fn(audio.hop_samples),
    )


def _with_magnitudes(spectrum: tf.Tensor, magnitudes: tf.Tensor) -> tf.Tensor:
    scale = magnitudes * tf.math.rsqrt(squared_magnitude(spectrum) + _SMALL)
    return spectrum * tf.complex(scale, tf.zeros_like(scale))


def squared_magnitude(spectrum: tf.Tensor) -> tf.Tensor:
    """Faster than tf.abs, which avoids overflow."""
    return tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
