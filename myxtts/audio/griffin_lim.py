"""Griffin-Lim: log-mel to waveform without a trained vocoder.

The magnitude spectrum is estimated from the mel by multiplicative non-negative least squares, the
phase by fast Griffin-Lim (with momentum). The result is intelligible to speech recognisers.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.frames import add_frames, cut_frames, hann_window, inverse_window
from myxtts.audio.mel import FloatArray, mel_weights
from myxtts.audio.mel_geometry import padding_samples
from myxtts.config.config import AudioConfig

_MOMENTUM = 0.99
_SMALL = 1e-8


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
    """One compiled function for all lengths."""
    before, after = padding_samples(audio)
    weights = mel_weights(audio, n_mels)  # [bins, mels]
    size, hop = audio.fft_samples, audio.hop_samples
    window, undo = hann_window(size), inverse_window(size, hop)

    def to_waveform(spectrum: tf.Tensor) -> tf.Tensor:
        return add_frames(tf.signal.irfft(spectrum, [size])[None] * undo, hop)[0]

    def to_spectrum(waveform: tf.Tensor) -> tf.Tensor:
        return tf.signal.rfft(cut_frames(waveform, size, hop) * window, name="stft")

    def invert(frames: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        magnitude = spectrum_from_mel(tf.exp(frames), weights, spectrum_iterations)
        angle = tf.random.stateless_uniform(tf.shape(magnitude), seed, maxval=2 * np.pi)
        target = tf.cast(magnitude, tf.complex64)
        consistent = target * tf.exp(tf.complex(0.0, angle))

        def iterate(
            step: tf.Tensor, spectrum: tf.Tensor, previous: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            projected = to_spectrum(to_waveform(spectrum))
            leap = projected + _MOMENTUM * (projected - previous)
            unit = leap / tf.cast(tf.abs(leap) + _SMALL, tf.complex64)
            return step + 1, target * unit, projected

        _, spectrum, _ = tf.while_loop(
            lambda step, *_: step < phase_iterations,
            iterate,
            (tf.constant(0), consistent, tf.zeros_like(consistent)),
        )
        waveform = to_waveform(spectrum)
        return waveform[before : tf.shape(waveform)[0] - after]

    signature = [tf.TensorSpec([None, n_mels], tf.float32), tf.TensorSpec([2], tf.int32)]
    return tf.function(invert, input_signature=signature, autograph=False)


def spectrum_from_mel(mel: tf.Tensor, weights: FloatArray, iterations: int) -> tf.Tensor:
    """The non-negative spectrum [frames, bins] whose mel is closest to `mel` [frames, mels]."""
    target = tf.matmul(mel, weights, transpose_b=True)  # [frames, bins]
    gram = tf.constant(weights @ weights.T)  # [bins, bins]
    covered = tf.constant((weights.sum(axis=1) > 0).astype(np.float32))

    def refine(step: tf.Tensor, spectrum: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return step + 1, spectrum * target / (tf.matmul(spectrum, gram) + _SMALL)

    _, spectrum = tf.while_loop(
        lambda step, _: step < iterations,
        refine,
        (tf.constant(0), tf.sqrt(target) * covered + _SMALL),
    )
    return spectrum * covered
