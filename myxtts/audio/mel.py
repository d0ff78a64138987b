"""The only definition of a log-mel spectrogram and of the positions of its frames.

Waveform in [-1, 1] -> Hann window, magnitude of the STFT -> triangular mel bands (Slaney's
scale and area normalization) -> natural logarithm with a floor.

Frame n is centered on sample n * hop, so the waveform is padded by half a window on both sides.
Counts may be ints, arrays or tensors.

TensorFlow is imported where it is used, because processes that check a corpus only count frames.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from myxtts.config.config import AudioConfig

if TYPE_CHECKING:
    import tensorflow as tf

FloatArray = npt.NDArray[np.float32]
Indices = npt.NDArray[np.intp]

MEL_RULES = 1
"""Increase when the mel of a recording changes, to invalidate cached features."""
LOG_FLOOR = 1e-5
# The lowest band reaches down to zero: deep voices begin at 60 Hz.
_LOWEST_HZ = 0.0
# Slaney's scale: linear below 1 kHz, logarithmic above.
_BREAK_HZ = 1_000.0
_HZ_PER_MEL = 200.0 / 3.0
_LOG_STEP = float(np.log(6.4)) / 27.0
# Cosines with up to this many half-waves per band belong to the envelope. The harmonics of a
# child's voice of 350 Hz are just above.
_HALF_WAVES_PER_BAND = 14 / 80


def mel_frame_count(samples: int, audio: AudioConfig) -> int:
    """Return the frames of a clip: one per hop, plus one."""
    return samples // audio.hop_samples + 1


def span_samples(frames: Any, audio: AudioConfig) -> Any:
    """Return the samples from the center of the first frame to the center of the last."""
    return (frames - 1) * audio.hop_samples


def padding_samples(audio: AudioConfig) -> tuple[int, int]:
    """Return the zero padding before and after a clip: one window in total."""
    before = audio.fft_samples // 2
    return before, audio.fft_samples - before


def window_start(frame: Any, audio: AudioConfig) -> Any:
    """Return the first sample in the window of a frame; negative values are in the padding."""
    return frame * audio.hop_samples - padding_samples(audio)[0]


def padded_samples(span: int, audio: AudioConfig) -> int:
    """Return the samples needed for the frames over a span, including padding."""
    return span + sum(padding_samples(audio))


def frames_in_padded(samples: Any, audio: AudioConfig) -> Any:
    """Return the number of frames whose windows fit in `samples`, which includes padding."""
    return (samples - audio.fft_samples) // audio.hop_samples + 1


def seconds_of_frames(frames: Any, audio: AudioConfig) -> Any:
    """Return a duration: one hop per frame."""
    return frames * audio.hop_samples / audio.sample_rate_hz


@functools.cache
def hann_window(samples: int) -> FloatArray:
    return np.hanning(samples + 1)[:-1].astype(np.float32)


@functools.cache
def inverse_window(samples: int, hop_samples: int) -> FloatArray:
    """Return the window that undoes the Hann window when overlapping frames are added up."""
    window = hann_window(samples)
    power = np.pad(np.square(window), (0, -samples % hop_samples))
    in_all_frames = power.reshape(-1, hop_samples).sum(0)
    tiled: FloatArray = np.tile(in_all_frames, power.size // hop_samples)[:samples]
    return window / tiled


def cut_frames(samples: tf.Tensor, frame_samples: int, hop_samples: int) -> tf.Tensor:
    """Cut [..., samples] into [..., frames, frame_samples]; an incomplete frame is dropped."""
    import tensorflow as tf

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
    """Overlap-add [batch, frames, frame_samples] to [batch, samples], one hop apart."""
    import tensorflow as tf

    if frames.shape[-1] % hop_samples:
        return tf.signal.overlap_and_add(frames, hop_samples)
    overlap = frames.shape[-1] // hop_samples
    blocks = [
        tf.pad(part, [[0, 0], [first, overlap - 1 - first], [0, 0]])
        for first, part in enumerate(tf.split(frames, overlap, -1))
    ]
    return tf.reshape(tf.add_n(blocks), [tf.shape(frames)[0], -1])


@functools.lru_cache(maxsize=64)
def mel_weights(audio: AudioConfig, n_mels: int, pitch: float = 1.0) -> FloatArray:
    """Return the mel filter bank, [bins, mels].

    A `pitch` factor shifts the frequencies of the voice by that factor.
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


def _band_edges_hz(audio: AudioConfig, n_mels: int) -> npt.NDArray[np.float64]:
    """Return edges of bands that extend from the center of the previous one to that of the next."""

    def to_mel(hz: float) -> float:
        if hz < _BREAK_HZ:
            return hz / _HZ_PER_MEL
        return _BREAK_HZ / _HZ_PER_MEL + float(np.log(hz / _BREAK_HZ)) / _LOG_STEP

    mel = np.linspace(to_mel(_LOWEST_HZ), to_mel(audio.highest_hz), n_mels + 2)
    break_mel = _BREAK_HZ / _HZ_PER_MEL
    exponential = _BREAK_HZ * np.exp(_LOG_STEP * (mel - break_mel))
    return np.where(mel < break_mel, mel * _HZ_PER_MEL, exponential)


def used_bins(weights: FloatArray) -> int:
    """Return the number of lowest bins that contain all non-zero weights."""
    return int(np.flatnonzero(weights.any(axis=1))[-1]) + 1


def log_mel_of_frames(frames: tf.Tensor, weights: Any) -> tf.Tensor:
    """Return the log-mel [..., frames, mels] of windowed frames, using `mel_weights`.

    Trailing bins that no band uses may be left out of the weights.
    """
    import tensorflow as tf

    window = tf.signal.hann_window(frames.shape[-1])
    spectrum = tf.signal.rfft(frames * window)[..., : weights.shape[-2]]
    # tf.abs is slow because it avoids overflow, which cannot happen for samples in [-1, 1].
    magnitude = tf.sqrt(tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum)))
    return tf.math.log(tf.maximum(tf.matmul(magnitude, weights), LOG_FLOOR))


def log_mel(waveform: Any, audio: AudioConfig, n_mels: int) -> tf.Tensor:
    """Return the log-mel [..., frames, mels] of [..., samples]."""
    import tensorflow as tf

    waveform = tf.convert_to_tensor(waveform, tf.float32)
    no_padding = [[0, 0]] * (waveform.shape.rank - 1)
    padded = tf.pad(waveform, [*no_padding, padding_samples(audio)])
    weights = mel_weights(audio, n_mels)
    frames = cut_frames(padded, audio.fft_samples, audio.hop_samples)
    return log_mel_of_frames(frames, weights[: used_bins(weights)])


@functools.lru_cache(maxsize=8)
def clip_log_mel(audio: AudioConfig, n_mels: int) -> Callable[[FloatArray], FloatArray]:
    """Return a compiled `log_mel` of one waveform, several times faster than eager execution."""
    import tensorflow as tf

    compiled = tf.function(
        lambda waveform: log_mel(waveform, audio, n_mels),
        input_signature=[tf.TensorSpec([None], tf.float32)],
        autograph=False,
    ).get_concrete_function()
    return lambda waveform: compiled(tf.constant(waveform, tf.float32)).numpy()


def cosines_over_bands(half_waves: npt.NDArray[np.int64], n_mels: int) -> npt.NDArray[np.float64]:
    """Return [waves, mels]: each row is a cosine with that many half-waves over all bands."""
    return np.cos(np.pi * half_waves[:, None] * (np.arange(n_mels) + 0.5) / n_mels)


def formant_weights(audio: AudioConfig, n_mels: int, factor: float) -> FloatArray:
    """Return [mels, mels]; log-mels [frames, mels] times it have formants scaled by `factor`."""
    cosines = cosines_over_bands(np.arange(max(2, round(_HALF_WAVES_PER_BAND * n_mels))), n_mels)
    cosines /= np.linalg.norm(cosines, axis=1, keepdims=True)
    shape_of = cosines.T @ cosines
    centers = _band_edges_hz(audio, n_mels)[1:-1]
    taken_from = np.interp(centers / factor, centers, np.arange(n_mels))
    moved = np.stack([np.interp(taken_from, np.arange(n_mels), unit) for unit in np.eye(n_mels)], 1)
    weights = moved @ shape_of + np.eye(n_mels) - shape_of
    return weights.T.astype(np.float32)


def frame_distances(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the Euclidean distance of each frame [frames, features] from each of another clip."""
    squares = (ours**2).sum(1)[:, None] + (theirs**2).sum(1)[None] - 2 * ours @ theirs.T
    return np.sqrt(np.maximum(squares, 0.0))


def warp(cost: npt.NDArray[np.floating]) -> tuple[Indices, Indices]:
    """Align two clips by dynamic time warping of the distances of their frames.

    Return the indices along both axes of the cheapest path from corner to corner. The cells of a
    diagonal are independent, so each diagonal is one operation.
    """
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0.0
    for diagonal in range(2, rows + columns + 1):
        row = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        column = diagonal - row
        before = np.minimum(total[row - 1, column], total[row, column - 1])
        before = np.minimum(before, total[row - 1, column - 1])
        total[row, column] = cost[row - 1, column - 1] + before
    path = []
    at = rows, columns
    while min(at) > 0:
        row, column = at
        path.append((row - 1, column - 1))
        steps = ((row - 1, column - 1), (row - 1, column), (row, column - 1))
        at = min(steps, key=lambda step: total[step])
    row_of_step, column_of_step = np.array(path[::-1], np.intp).T
    return row_of_step, column_of_step
