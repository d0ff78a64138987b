"""Cuts one recording of any length into clips, block by block.

Memory holds a minute or two of it: what came before the last long pause is done with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile

from myxtts.audio.ffmpeg import FfmpegError
from myxtts.audio.files import FloatArray, UnusableAudioError
from myxtts.audio.streaming import open_stream
from myxtts.collecting.activity import (
    HOP_SECONDS,
    Activity,
    Floats,
    band_levels_db,
    find_speech,
    hop_samples,
)
from myxtts.collecting.cutting import Lengths, Stretch, plan_cuts, safe_end, speech_runs
from myxtts.collecting.fingerprints import fingerprint
from myxtts.collecting.reverberation import falls_db_per_second
from myxtts.collecting.sound_checks import Figures, measure

# Of speech without a pause at most this much is kept in memory.
_STRETCH_SECONDS = 90.0
_BEFORE_SECONDS = 30.0
_SHORTEST_SECONDS = 0.1
# Of telephones.
_LOWEST_RATE_HZ = 8_000
# Tracks are padded, and headers round.
_LEAST_OF_WHOLE = 0.95
_DAMAGE = (FfmpegError, soundfile.LibsndfileError, OSError)
TOO_SHORT, NO_PAUSE = "too short", "no pause to cut at"


class CutClip(NamedTuple):
    samples: FloatArray
    sample_rate_hz: int
    start_seconds: float
    speech_seconds: float
    """Without its pauses."""
    figures: Figures
    fingerprint: str


class LeftOut(NamedTuple):
    """Speech that became no clip."""

    start_seconds: float
    seconds: float
    reason: str


@dataclass
class Tally:
    """What a recording contained, in seconds; filled while it is cut."""

    seconds: float = 0.0
    speech_seconds: float = 0.0
    falls: list[float] = field(default_factory=list)
    """Of the level before pauses, in dB per second; see `collecting.reverberation`."""


def cut_recording(
    file: Path,
    lengths: Lengths,
    tally: Tally,
    on_progress: Callable[[float], None] = lambda share: None,
) -> Iterator[CutClip | LeftOut]:
    """Clips and what is left out, in order; `on_progress` gets the share that is done."""
    with open_stream(file) as stream:
        rate_hz = stream.sample_rate_hz
        if rate_hz < _LOWEST_RATE_HZ:
            raise UnusableAudioError(
                f"{file}: found a sample rate of {rate_hz} Hz, expected at least {_LOWEST_RATE_HZ}"
            )
        hop = hop_samples(rate_hz)
        pending: list[FloatArray] = []
        before = np.zeros((0, 0), np.float32)
        first_frame = 0
        damage: Exception | None = None
        blocks = iter(stream.blocks)
        while True:
            try:
                block = next(blocks, None)
            except _DAMAGE as error:  # what came before it is cut first
                damage, block = error, None
            if block is None:
                break
            pending.append(block)
            tally.seconds += block.size / rate_hz
            if sum(part.size for part in pending) < _STRETCH_SECONDS * rate_hz:
                continue
            samples = np.concatenate(pending)
            stretch = _Stretch(samples, rate_hz, lengths, first_frame, before)
            end = safe_end(stretch.runs, stretch.frames)
            yield from stretch.cut(end, tally)
            before = stretch.frames_before(end)
            pending, first_frame = [samples[end * hop :]], first_frame + end
            declared = stream.declared_seconds or np.inf
            on_progress(min(1.0, tally.seconds / declared))
        if sum(part.size for part in pending) >= _SHORTEST_SECONDS * rate_hz:
            if tally.seconds < lengths.shortest_seconds:  # no need to look for speech in it
                yield LeftOut(0.0, tally.seconds, TOO_SHORT)
            else:
                stretch = _Stretch(np.concatenate(pending), rate_hz, lengths, first_frame, before)
                yield from stretch.cut(stretch.frames, tally)
        if damage is not None:
            raise damage
        if tally.seconds < _LEAST_OF_WHOLE * (stream.whole_seconds or 0.0) - 1.0:
            raise UnusableAudioError(
                f"{file}: found {tally.seconds:.0f} s of {stream.whole_seconds:.0f} s; the end is "
                "missing or damaged"
            )


class _Stretch:
    """A part of the recording that is in memory."""

    def __init__(
        self,
        samples: FloatArray,
        rate_hz: int,
        lengths: Lengths,
        first_frame: int,
        before: Floats,
    ) -> None:
        self._samples, self._rate_hz, self._hop = samples, rate_hz, hop_samples(rate_hz)
        self._lengths = lengths
        self._first_frame = first_frame
        bands_db = band_levels_db(samples, rate_hz)
        self.frames = len(bands_db)
        self._before = before if before.size else np.zeros((0, bands_db.shape[1]), np.float32)
        self._activity: Activity = find_speech(bands_db, self._before)
        self.runs = speech_runs(self._activity, lengths.longest_seconds)

    def frames_before(self, end: int) -> Floats:
        """What the next stretch may know of this one."""
        known = np.concatenate([self._before, self._activity.bands_db[:end]])
        return known[-round(_BEFORE_SECONDS / HOP_SECONDS) :]

    def cut(self, end: int, tally: Tally) -> Iterator[CutClip | LeftOut]:
        runs = [run for run in self.runs if run.end <= end]
        tally.speech_seconds += sum(run.seconds for run in runs)
        tally.falls += falls_db_per_second(self._activity, runs)
        cuts = plan_cuts(runs, end, self._lengths)
        for reason, stretches in ((TOO_SHORT, cuts.too_short), (NO_PAUSE, cuts.no_pause)):
            for stretch in stretches:
                yield LeftOut(self._seconds(stretch), stretch.seconds, reason)
        for clip in cuts.clips:
            samples = self._samples[clip.start * self._hop : clip.end * self._hop]
            figures = measure(samples, self._rate_hz, self._activity, clip)
            yield CutClip(
                samples - np.float32(figures.dc_offset),
                self._rate_hz,
                self._seconds(clip),
                float(self._activity.is_speech[clip.start : clip.end].sum()) * HOP_SECONDS,
                figures,
                fingerprint(self._activity.bands_db[clip.start : clip.end]),
            )

    def _seconds(self, stretch: Stretch) -> float:
        return (self._first_frame + stretch.start) * self._hop / self._rate_hz
