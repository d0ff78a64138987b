"""Measures of a clip's sound: level, noise, clipping, modulation, fingerprint."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from myxtts.audio.files import FloatArray, window_levels
from myxtts.collect.activity import HOP_SECONDS, Activity, Flags, Floats, Span
from myxtts.data.checks import clipped_share

# Minimum number of noise frames around a clip for a mean.
_MIN_NOISE_FRAMES = 20
_AROUND_SECONDS = 5.0
_MAX_SNR_DB = 80.0
_SILENT_DBFS = -60.0
_MAX_CLIPPED = 0.01
# Modulation by syllables, from about 2 to 8 Hz.
_FAST_SECONDS, _SLOW_SECONDS = 0.06, 0.5
_MIN_MODULATION_DB = 3.0


@dataclass(frozen=True)
class Figures:
    level_dbfs: float
    dc_offset: float
    clipped_share: float
    snr_db: float
    modulation_db: float


def measure(samples: FloatArray, sample_rate_hz: int, activity: Activity, clip: Span) -> Figures:
    dc_offset = float(samples.mean())
    levels = window_levels(samples - np.float32(dc_offset), sample_rate_hz)
    loud = levels[levels >= np.median(levels)]
    level = float(np.sqrt(np.mean(loud**2)))
    return Figures(
        level_dbfs=20 * float(np.log10(max(level, 1e-6))),
        dc_offset=dc_offset,
        clipped_share=clipped_share(samples),
        snr_db=_snr_db(activity, clip),
        modulation_db=_modulation_db(activity.bands_db[clip.start : clip.end]),
    )


def unfit(figures: Figures, min_snr_db: float) -> tuple[str, str] | None:
    """Return the reason and the measured value if the clip should not be used for training."""
    if figures.level_dbfs < _SILENT_DBFS:
        return "silent", f"level {figures.level_dbfs:.0f} dBFS"
    if figures.clipped_share > _MAX_CLIPPED:
        return "clipped", f"{figures.clipped_share:.1%} of the samples are clipped"
    if figures.snr_db < min_snr_db:
        return "noisy", f"SNR {figures.snr_db:.0f} dB, expected at least {min_snr_db:g} dB"
    if figures.modulation_db < _MIN_MODULATION_DB:
        return "music or machine", f"modulation {figures.modulation_db:.1f} dB; speech has more"
    return None


def _snr_db(activity: Activity, clip: Span) -> float:
    around = round(_AROUND_SECONDS / HOP_SECONDS)
    start, end = max(0, clip.start - around), clip.end + around
    power = 10 ** (activity.bands_db[start:end] / 10)
    is_speech = activity.is_speech[start:end]
    pauses = power[_deep_inside(~is_speech)]
    if len(pauses) < _MIN_NOISE_FRAMES:
        # Without a pause nearby, use the quietest frames of each band.
        noise = np.percentile(power, 10, axis=0).sum()
    else:
        noise = pauses.sum(axis=1).mean()
    inside = slice(clip.start - start, clip.end - start)
    speech = power[inside][is_speech[inside]]
    if not speech.size:
        return 0.0
    ratio = max(float(speech.sum(axis=1).mean()) - noise, 1e-12) / max(float(noise), 1e-12)
    return float(np.clip(10 * np.log10(ratio), 0.0, _MAX_SNR_DB))


def _deep_inside(pause: Flags) -> Flags:
    """Return frames surrounded by pauses, because edges still contain some speech."""
    reach = 4
    edges = np.flatnonzero(~pause)
    deep = pause.copy()
    for offset in range(-reach, reach + 1):
        moved = edges + offset
        deep[moved[(moved >= 0) & (moved < pause.size)]] = False
    return deep


def _modulation_db(bands_db: Floats) -> float:
    """Return the median over bands of the deviation of their level around its slow mean."""
    fast, slow = round(_FAST_SECONDS / HOP_SECONDS), round(_SLOW_SECONDS / HOP_SECONDS)
    if len(bands_db) < 2 * slow:
        return 0.0
    smooth = _moving_mean(bands_db, fast)
    trend = _moving_mean(smooth, slow)
    inset = (len(smooth) - len(trend)) // 2
    around = smooth[inset : inset + len(trend)] - trend
    return float(np.median(around.std(axis=0)))


def _moving_mean(values: Floats, width: int) -> Floats:
    summed = np.cumsum(
        np.concatenate([np.zeros_like(values[:1]), values]), axis=0, dtype=np.float64
    )
    return ((summed[width:] - summed[:-width]) / width).astype(np.float32)


_SLOTS = 33
# Fingerprints of different clips differ in about half the bits.
_MAX_DIFFERENT = 0.2
# The same sound may be cut a few frames earlier or later.
_SAME_LENGTH = 0.03


def fingerprint(bands_db: Floats) -> str:
    """Return hexadecimal digits, the same number for every clip."""
    edges = np.linspace(0, len(bands_db), _SLOTS + 1).astype(int)
    means = [bands_db[a : max(b, a + 1)].mean(axis=0) for a, b in itertools.pairwise(edges)]
    rises = np.diff(np.stack(means), axis=0) > 0
    return np.packbits(rises).tobytes().hex()


def duplicates(fingerprints: Sequence[str], seconds: Sequence[float]) -> dict[int, int]:
    """Return the index of each clip that repeats an earlier one, and of that one."""
    if not fingerprints:
        return {}
    bits = np.frombuffer(bytes.fromhex("".join(fingerprints)), np.uint8).reshape(len(seconds), -1)
    limit = _MAX_DIFFERENT * 8 * bits.shape[1]
    lengths = np.asarray(seconds)
    found: dict[int, int] = {}
    for index in range(1, len(lengths)):
        earlier, length = lengths[:index], lengths[index]
        alike = np.abs(earlier - length) <= _SAME_LENGTH * np.maximum(earlier, length)
        others = np.flatnonzero(alike)
        different = np.unpackbits(bits[others] ^ bits[index], axis=1).sum(axis=1)
        repeated = others[different <= limit]
        if repeated.size:
            first = int(repeated[0])
            found[index] = found.get(first, first)
    return found
