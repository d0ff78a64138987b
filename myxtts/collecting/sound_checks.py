"""Figures of a clip's sound, and which of them make it unfit for training.

| figure | how it is measured |
|---|---|
| level | RMS of the louder half of the clip |
| DC offset | mean of the samples |
| clipping | share of samples in runs at the extreme value |
| SNR | power of the speech frames over that of the pauses in and around the clip |
| modulation | how much the level of each band changes, at the rate of syllables |

Speech changes its level four times a second or so, by many decibels in every band; music and
machines do so less. Voices that overlap are not measured: nothing here can tell them from one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from myxtts.audio.files import FloatArray, window_levels
from myxtts.collecting.activity import HOP_SECONDS, Activity, Flags, Floats
from myxtts.collecting.cutting import Stretch
from myxtts.data.corpus.checks import clipped_share

# Frames of noise that a mean needs; they are looked for around the clip.
_LEAST_NOISE_FRAMES = 20
_AROUND_SECONDS = 5.0
_HIGHEST_SNR_DB = 80.0
_SILENT_DBFS = -60.0
_QUIET_DBFS = -45.0
_MOST_CLIPPED = 0.01
_SOME_CLIPPED = 0.0005
_FAIR_SNR_DB = 20.0
_LARGE_DC = 0.01
# Modulation by syllables, from about 2 to 8 Hz.
_FAST_SECONDS, _SLOW_SECONDS = 0.06, 0.5
_LEAST_MODULATION_DB = 3.0


@dataclass(frozen=True)
class Figures:
    level_dbfs: float
    dc_offset: float
    clipped_share: float
    snr_db: float
    modulation_db: float


@dataclass(frozen=True)
class Limits:
    least_snr_db: float = 10.0


def measure(samples: FloatArray, sample_rate_hz: int, activity: Activity, clip: Stretch) -> Figures:
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


def unfit(figures: Figures, limits: Limits) -> tuple[str, str] | None:
    """Reason and figure, if the clip should not be trained on."""
    if figures.level_dbfs < _SILENT_DBFS:
        return "silent", f"level {figures.level_dbfs:.0f} dBFS"
    if figures.clipped_share > _MOST_CLIPPED:
        return "clipped", f"{figures.clipped_share:.1%} of the samples are clipped"
    if figures.snr_db < limits.least_snr_db:
        return "noisy", f"SNR {figures.snr_db:.0f} dB, the least is {limits.least_snr_db:g} dB"
    if figures.modulation_db < _LEAST_MODULATION_DB:
        return "music or machine", f"modulation {figures.modulation_db:.1f} dB; speech has more"
    return None


def flags(figures: Figures) -> Iterator[tuple[str, str]]:
    """What is worth knowing of a clip that is kept, with its figure."""
    if figures.snr_db < _FAIR_SNR_DB:
        yield "some noise", f"SNR {figures.snr_db:.0f} dB"
    if figures.clipped_share > _SOME_CLIPPED:
        yield "some clipping", f"{figures.clipped_share:.2%} of the samples are clipped"
    if figures.level_dbfs < _QUIET_DBFS:
        yield "very quiet", f"level {figures.level_dbfs:.0f} dBFS"
    if abs(figures.dc_offset) > _LARGE_DC:
        yield "DC offset", f"{figures.dc_offset:+.3f} of full scale, removed"


def _snr_db(activity: Activity, clip: Stretch) -> float:
    around = round(_AROUND_SECONDS / HOP_SECONDS)
    start, end = max(0, clip.start - around), clip.end + around
    power = 10 ** (activity.bands_db[start:end] / 10)
    is_speech = activity.is_speech[start:end]
    pauses = power[_deep_inside(~is_speech)]
    if len(pauses) < _LEAST_NOISE_FRAMES:
        # No pause nearby: the quietest frames of each band stand in for one.
        noise = np.percentile(power, 10, axis=0).sum()
    else:
        noise = pauses.sum(axis=1).mean()
    inside = slice(clip.start - start, clip.end - start)
    speech = power[inside][is_speech[inside]]
    if not speech.size:
        return 0.0
    ratio = max(float(speech.sum(axis=1).mean()) - noise, 1e-12) / max(float(noise), 1e-12)
    return float(np.clip(10 * np.log10(ratio), 0.0, _HIGHEST_SNR_DB))


def _deep_inside(pause: Flags) -> Flags:
    """Frames whose neighbours are pauses too: at the edges there is still some speech."""
    reach = 4
    edges = np.flatnonzero(~pause)
    deep = pause.copy()
    for offset in range(-reach, reach + 1):
        moved = edges + offset
        deep[moved[(moved >= 0) & (moved < pause.size)]] = False
    return deep


def _modulation_db(bands_db: Floats) -> float:
    """Median over bands of the deviation of their level around its slow mean."""
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
