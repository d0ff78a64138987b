"""Finds the frames of a recording that contain speech.

A frame is speech if its bands are clearly above the noise that each band has around that time, and
if it is not far below the loudest speech around it. The noise is followed as it changes. This finds
anything that is louder than the background, music too; `collecting.sound_checks` tells them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from myxtts.audio.files import FloatArray

HOP_SECONDS = 0.01
_WINDOW_SECONDS = 0.02
_BANDS = 16
_LOWEST_HZ, _HIGHEST_HZ = 100.0, 8_000.0
# Below this a band is silent, whatever else is there: rounding of 16 bits.
_SILENCE_DB = -90.0
# A band above its noise by more says nothing more about speech.
_MOST_ABOVE_NOISE_DB = 30.0
# Noise and loudness around a frame come from this much of the recording.
_AROUND_SECONDS, _STEP_SECONDS = 30.0, 5.0
_NOISE_PERCENTILE, _LOUD_PERCENTILE = 10, 95
# Noise alone is at most this far above the tenth percentile of all frames, even at 10 dB SNR.
_NOISE_SPREAD_DB = 1.5
_STARTS_ABOVE_DB = 1.0
# Final consonants are this far below vowels; a quiet room is further down.
_BELOW_LOUD_DB = 38.0
_FRAMES_AT_ONCE = 4_096

Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Activity:
    """What is known of each frame of a stretch; frame i is around i * HOP_SECONDS."""

    bands_db: Floats  # [frames, bands]
    is_speech: Flags  # [frames]
    above_noise_db: Floats  # [frames]
    """Mean over bands, beyond what noise alone has; above 0 for speech."""


def band_levels_db(samples: FloatArray, sample_rate_hz: int) -> Floats:
    """Level of each band in each frame; a full-scale tone is about 0 dB.  # [frames, bands]"""
    hop = hop_samples(sample_rate_hz)
    window = max(2, round(_WINDOW_SECONDS * sample_rate_hz))
    frames = samples.size // hop
    padded = np.pad(samples, (window // 2, window))
    shape = np.hanning(window).astype(np.float32)
    edges = _band_edges(window, sample_rate_hz)
    scale = np.float32(2.0 / np.sum(shape) ** 2)
    levels = np.empty((frames, _BANDS), np.float32)
    for first in range(0, frames, _FRAMES_AT_ONCE):
        count = min(_FRAMES_AT_ONCE, frames - first)
        part = padded[first * hop : (first + count) * hop + window]
        windows = np.lib.stride_tricks.sliding_window_view(part, window)[: count * hop : hop]
        spectra = np.fft.rfft(windows * shape)
        power = (spectra.real**2 + spectra.imag**2).astype(np.float32) * scale
        levels[first : first + count] = np.add.reduceat(power[:, : edges[-1]], edges[:-1], axis=1)
    return 10 * np.log10(np.maximum(levels, 10 ** (_SILENCE_DB / 10)))


def hop_samples(sample_rate_hz: int) -> int:
    return max(1, round(HOP_SECONDS * sample_rate_hz))


def _band_edges(window: int, sample_rate_hz: int) -> npt.NDArray[np.int64]:
    """First bin of each band and the end of the last; each band has at least one bin."""
    bins = window // 2 + 1
    bin_hz = sample_rate_hz / window
    highest_hz = min(_HIGHEST_HZ, 0.95 * sample_rate_hz / 2)
    wanted = np.geomspace(_LOWEST_HZ, highest_hz, _BANDS + 1) / bin_hz
    edges = np.round(wanted).astype(np.int64)
    for band in range(1, edges.size):
        edges[band] = max(edges[band], edges[band - 1] + 1)
    return np.minimum(edges, bins)


def find_speech(bands_db: Floats, before_db: Floats) -> Activity:
    """`before_db` are the frames before, which help to know the noise at the beginning."""
    every = np.concatenate([before_db, bands_db])
    smooth = _smoothed(every)
    noise_db = _followed(smooth, _NOISE_PERCENTILE)
    score = np.clip(smooth - noise_db, 0, _MOST_ABOVE_NOISE_DB).mean(axis=1)
    level = 10 * np.log10(np.sum(10 ** (smooth / 10), axis=1))
    loud = level > _followed(level[:, None], _LOUD_PERCENTILE)[:, 0] - _BELOW_LOUD_DB
    above = (score - np.percentile(score, _NOISE_PERCENTILE)).astype(np.float32)
    above -= np.float32(_NOISE_SPREAD_DB)
    is_speech = _with_hysteresis((above > 0) & loud, (above > _STARTS_ABOVE_DB) & loud)
    here = slice(len(before_db), None)
    return Activity(bands_db, is_speech[here], above[here])


def _smoothed(bands_db: Floats) -> Floats:
    """Mean of three frames."""
    if len(bands_db) < 3:
        return bands_db
    padded = np.concatenate([bands_db[:1], bands_db, bands_db[-1:]])
    return (padded[:-2] + padded[1:-1] + padded[2:]) / np.float32(3)


def _followed(values: Floats, percentile: int) -> Floats:
    """A percentile of what is around each frame, every few seconds and linear in between."""
    step, half = round(_STEP_SECONDS / HOP_SECONDS), round(_AROUND_SECONDS / HOP_SECONDS / 2)
    end = len(values)
    middles = np.arange(0, end + step, step)
    known = np.stack(
        [
            np.percentile(
                values[max(0, min(middle, end) - half) : middle + half], percentile, axis=0
            )
            for middle in middles.tolist()
        ]
    )
    frames = np.arange(len(values))
    columns = [np.interp(frames, middles, known[:, column]) for column in range(values.shape[1])]
    return np.stack(columns, axis=1).astype(np.float32)


def _with_hysteresis(may_be: Flags, surely: Flags) -> Flags:
    """Runs of `may_be` that contain a frame of `surely`."""
    edges = np.flatnonzero(np.diff(may_be, prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    counted = np.concatenate([[0], np.cumsum(surely)])
    kept = counted[ends] > counted[starts]
    change = np.zeros(may_be.size + 1, np.int8)
    change[starts[kept]] += 1
    change[ends[kept]] -= 1
    return np.cumsum(change[:-1]).astype(bool)
