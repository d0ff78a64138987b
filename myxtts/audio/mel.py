"""The only definition of a log-mel spectrogram in this project, in TensorFlow.

Waveform in [-1, 1] -> Hann window, magnitude of the STFT -> triangular mel bands (Slaney's
scale and area normalisation) -> natural logarithm with a floor. `mel_geometry` defines the
positions of frames; increase its MEL_RULES with every change of the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.audio.mel_geometry import padding_samples
from myxtts.config.config import AudioConfig

FloatArray = npt.NDArray[np.float32]


def cut_frames(samples: tf.Tensor, frame_samples: int, hop_samples: int) -> tf.Tensor:
    """[..., samples] -> [..., frames, frame_samples]; an incomplete frame is left out."""
    if frame_samples % hop_samples:
        return tf.signal.frame(samples, frame_samples, hop_samples)
    overlap = frame_samples // hop_samples
    *before, count = tf.unstack(tf.shape(samples))
    hops = count // hop_samples
    frames = tf.maximum(hops - overlap + 1, 0)
    blocks = tf.reshape(samples[..., : hops * hop_samples], [*before, hops, hop_samples])
    blocks_of_frame = tf.range(frames)[:, None] + tf.range(overlap)
    gathered = tf.gather(blocks, blocks_of_frame, axis=len(before))
    return tf.reshape(gathered, [*before, frames, frame_samples])


def add_frames(frames: tf.Tensor, hop_samples: int) -> tf.Tensor:
    """[batch, frames, frame_samples] -> [batch, samples], overlapping by all but the hop."""
    if frames.shape[-1] % hop_samples:
        return tf.signal.overlap_and_add(frames, hop_samples)
    overlap = frames.shape[-1] // hop_samples
    blocks = [
        tf.pad(part, [[0, 0], [first, overlap - 1 - first], [0, 0]])
        for first, part in enumerate(tf.split(frames, overlap, -1))
    ]
    return tf.reshape(tf.add_n(blocks), [tf.shape(frames)[0], -1])


@functools.cache
def hann_window(samples: int) -> FloatArray:
    return np.hanning(samples + 1)[:-1].astype(np.float32)


@functools.cache
def inverse_window(samples: int, hop_samples: int) -> FloatArray:
    """Frames cut and weighted by the Hann window, weighted by this one and added up, are what they
    were cut from.
    """
    window = hann_window(samples)
    power = np.pad(np.square(window), (0, -samples % hop_samples))
    in_all_frames = power.reshape(-1, hop_samples).sum(0)
    tiled: FloatArray = np.tile(in_all_frames, power.size // hop_samples)[:samples]
    return window / tiled


LOG_FLOOR = 1e-5
# The lowest band reaches down to zero: deep voices begin at 60 Hz.
_LOWEST_HZ = 0.0


@functools.lru_cache(maxsize=64)
def mel_weights(audio: AudioConfig, n_mels: int, pitch: float = 1.0) -> FloatArray:
    """Mel filter bank, [bins, mels].

    With a `pitch` factor the mel is that of a voice whose frequencies are `pitch` times as high.
    """
    bins_hz = np.linspace(0.0, audio.sample_rate_hz / 2, audio.fft_samples // 2 + 1) * pitch
    edges_hz = _band_edges_hz(audio, n_mels)
    widths_hz = np.diff(edges_hz)
    distance_hz = edges_hz[None, :] - bins_hz[:, None]  # [bins, mels + 2]
    rising = -distance_hz[:, :-2] / widths_hz[:-1]
    falling = distance_hz[:, 2:] / widths_hz[1:]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    equal_area = 2.0 / (edges_hz[2:] - edges_hz[:-2])
    return (triangles * equal_area).astype(np.float32)


def band_centres_hz(audio: AudioConfig, n_mels: int) -> npt.NDArray[np.float64]:
    return _band_edges_hz(audio, n_mels)[1:-1]


def cosines_over_bands(half_waves: npt.NDArray[np.int64], n_mels: int) -> npt.NDArray[np.float64]:
    """[waves, mels]: each row is a cosine with that many half-waves over all bands."""
    return np.cos(np.pi * half_waves[:, None] * (np.arange(n_mels) + 0.5) / n_mels)


def _band_edges_hz(audio: AudioConfig, n_mels: int) -> npt.NDArray[np.float64]:
    """Each band extends from the centre of the previous one to the centre of the next."""
    lowest, highest = _hz_to_mel(_LOWEST_HZ), _hz_to_mel(audio.highest_hz)
    return _mel_to_hz(np.linspace(lowest, highest, n_mels + 2))


def log_mel_of_frames(frames: tf.Tensor, weights: Any) -> tf.Tensor:
    """[..., frames, window samples] -> [..., frames, mels], using `mel_weights`.

    Trailing bins that no band uses may be left out of the weights.
    """
    window = tf.signal.hann_window(frames.shape[-1])
    spectrum = tf.signal.rfft(frames * window)[..., : weights.shape[-2]]
    # tf.abs is slow because it avoids overflow, which cannot happen for samples in [-1, 1].
    magnitude = tf.sqrt(tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum)))
    return tf.math.log(tf.maximum(tf.matmul(magnitude, weights), LOG_FLOOR))


def used_bins(weights: FloatArray) -> int:
    """Number of lowest bins that contain all non-zero weights."""
    return int(np.flatnonzero(weights.any(axis=1))[-1]) + 1


def log_mel(waveform: Any, audio: AudioConfig, n_mels: int) -> tf.Tensor:
    """[..., samples] -> [..., frames, mels]."""
    waveform = tf.convert_to_tensor(waveform, tf.float32)
    no_padding = [[0, 0]] * (waveform.shape.rank - 1)
    padded = tf.pad(waveform, [*no_padding, padding_samples(audio)])
    weights = mel_weights(audio, n_mels)
    frames = cut_frames(padded, audio.fft_samples, audio.hop_samples)
    return log_mel_of_frames(frames, weights[: used_bins(weights)])


@functools.lru_cache(maxsize=8)
def clip_log_mel(audio: AudioConfig, n_mels: int) -> Callable[[FloatArray], FloatArray]:
    """Compiled `log_mel` of one waveform of any length; eager execution is several times slower."""
    compiled = tf.function(
        lambda waveform: log_mel(waveform, audio, n_mels),
        input_signature=[tf.TensorSpec([None], tf.float32)],
        autograph=False,
    ).get_concrete_function()
    return lambda waveform: compiled(tf.constant(waveform, tf.float32)).numpy()


def _hz_to_mel(hz: float) -> float:
    """Slaney: linear below 1 kHz, logarithmic above."""
    if hz < _BREAK_HZ:
        return hz / _HZ_PER_MEL
    return _BREAK_HZ / _HZ_PER_MEL + float(np.log(hz / _BREAK_HZ)) / _LOG_STEP


def _mel_to_hz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    break_mel = _BREAK_HZ / _HZ_PER_MEL
    exponential = _BREAK_HZ * np.exp(_LOG_STEP * (mel - break_mel))
    return np.where(mel < break_mel, mel * _HZ_PER_MEL, exponential)


_BREAK_HZ = 1_000.0
_HZ_PER_MEL = 200.0 / 3.0
_LOG_STEP = float(np.log(6.4)) / 27.0


# Cosines with up to this many half-waves per band belong to the envelope. The harmonics of a
# child's voice of 350 Hz are just above.
_HALF_WAVES_PER_BAND = 14 / 80


def formant_weights(audio: AudioConfig, n_mels: int, factor: float) -> npt.NDArray[np.float32]:
    """[mels, mels]: multiplying log-mels [frames, mels] by it scales formants by `factor`."""
    cosines = cosines_over_bands(np.arange(max(2, round(_HALF_WAVES_PER_BAND * n_mels))), n_mels)
    cosines /= np.linalg.norm(cosines, axis=1, keepdims=True)
    shape_of = cosines.T @ cosines
    centres = band_centres_hz(audio, n_mels)
    taken_from = np.interp(centres / factor, centres, np.arange(n_mels))
    moved = np.stack([np.interp(taken_from, np.arange(n_mels), unit) for unit in np.eye(n_mels)], 1)
    weights = moved @ shape_of + np.eye(n_mels) - shape_of
    return weights.T.astype(np.float32)
