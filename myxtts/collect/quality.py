"""Measures of a clip's sound: level, noise, clipping, modulation, reverberation, fingerprint."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from myxtts.audio.files import FloatArray, window_levels
from myxtts.collect.activity import HOP_SECONDS, Activity, Flags, Floats, Stretch
from myxtts.data.checks import clipped_share

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


# A fall is looked for around the end of a run that is followed by a pause of at least this.
_LEAST_PAUSE_FRAMES = 30
_AROUND_FRAMES = 60
_NOISE_AROUND_FRAMES = 3_000
# It starts at the last frame that is near the loudest, and is followed for so many decibels.
_NEAR_LOUDEST_DB = 12.0
_FOLLOWED_DB, _LEAST_FALL_DB, _ABOVE_NOISE_DB = 25.0, 15.0, 6.0
_SHORTEST_FALL_FRAMES = 3
_LEAST_FALLS = 8
_FALL_OF_RT60_DB = 60.0


def falls_db_per_second(activity: Activity, runs: Sequence[Stretch]) -> list[float]:
    """How fast the level falls at the end of each run of speech where that can be told."""
    level_db = 10 * np.log10(np.sum(10 ** (activity.bands_db / 10), axis=1))
    falls = []
    for number, run in enumerate(runs, 1):
        next_start = runs[number].start if number < len(runs) else len(level_db)
        if next_start - run.end < _LEAST_PAUSE_FRAMES:
            continue
        first = max(run.start, run.end - _AROUND_FRAMES)
        around = level_db[first : min(next_start, run.end + _AROUND_FRAMES)]
        loud = np.flatnonzero(around > around.max() - _NEAR_LOUDEST_DB)
        fall = around[loud[-1] :]
        nearby = slice(max(0, run.end - _NOISE_AROUND_FRAMES), run.end + _NOISE_AROUND_FRAMES)
        noise_db = np.percentile(level_db[nearby], 5)
        end_db = max(fall[0] - _FOLLOWED_DB, noise_db + _ABOVE_NOISE_DB)
        below = np.flatnonzero(fall < end_db)
        if not below.size or fall[0] - end_db < _LEAST_FALL_DB:
            continue
        frames = max(int(below[0]), _SHORTEST_FALL_FRAMES)
        if frames < len(fall):
            falls.append(float(fall[0] - fall[frames]) / (frames * HOP_SECONDS))
    return falls


def reverberation_seconds(falls: Sequence[float]) -> float | None:
    """Time for 60 dB at the median fall; None with too few to tell."""
    if len(falls) < _LEAST_FALLS:
        return None
    return _FALL_OF_RT60_DB / float(np.median(falls))


_SLOTS = 33
# Of unlike clips about half the bits differ.
_MOST_DIFFERENT = 0.2
# The same sound may be cut a few frames earlier or later.
_SAME_LENGTH = 0.03

_BITS_IN_BYTE = np.array([bin(value).count("1") for value in range(256)], np.uint8)


def fingerprint(bands_db: Floats) -> str:
    """Hexadecimal digits; the same number for every clip."""
    edges = np.linspace(0, len(bands_db), _SLOTS + 1).astype(int)
    means = [bands_db[a : max(b, a + 1)].mean(axis=0) for a, b in itertools.pairwise(edges)]
    rises = np.diff(np.stack(means), axis=0) > 0
    return np.packbits(rises).tobytes().hex()


def duplicates(fingerprints: Sequence[str], seconds: Sequence[float]) -> dict[int, int]:
    """Index of each clip that repeats an earlier one, and of that one."""
    if not fingerprints:
        return {}
    bits = np.frombuffer(bytes.fromhex("".join(fingerprints)), np.uint8).reshape(len(seconds), -1)
    lengths = np.asarray(seconds)
    order = np.argsort(lengths, kind="stable")
    ordered = lengths[order]
    first_alike = np.searchsorted(ordered, ordered * (1 - _SAME_LENGTH))
    groups = _Groups(len(seconds))
    for place, index in enumerate(order):
        others = order[first_alike[place] : place]
        different = _BITS_IN_BYTE[bits[others] ^ bits[index]].sum(axis=1, dtype=np.int64)
        for other in others[different <= _MOST_DIFFERENT * 8 * bits.shape[1]]:
            groups.join(int(index), int(other))
    return {
        index: first for index in range(len(seconds)) if (first := groups.first(index)) != index
    }


class _Groups:
    """Clips that are alike, each group by its first clip."""

    def __init__(self, count: int) -> None:
        self._first: npt.NDArray[np.int64] = np.arange(count, dtype=np.int64)

    def first(self, index: int) -> int:
        while self._first[index] != index:
            index = int(self._first[index])
        return index

    def join(self, one: int, other: int) -> None:
        one, other = self.first(one), self.first(other)
        self._first[max(one, other)] = min(one, other)
