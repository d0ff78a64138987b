"""Recordings of any length to clips, block by block, several recordings at a time."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile

from myxtts.audio.ffmpeg import FfmpegError
from myxtts.audio.files import FloatArray, UnusableAudioError, open_stream, write_audio
from myxtts.collect.activity import (
    HOP_SECONDS,
    Activity,
    Floats,
    Lengths,
    Stretch,
    band_levels_db,
    find_speech,
    hop_samples,
    plan_cuts,
    safe_end,
    speech_runs,
)
from myxtts.collect.corpus import SOURCE_LINE, CorpusFolder, append, read_lines, readable
from myxtts.collect.quality import (
    Figures,
    Limits,
    falls_db_per_second,
    fingerprint,
    measure,
    reverberation_seconds,
    unfit,
)
from myxtts.collect.sources import Source

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
    """Of the level before pauses, in dB per second; see `quality.reverberation_seconds`."""


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


_AHEAD_PER_WORKER = 4
_BYTES_PER_UNIT = 1 << 20


@dataclass(frozen=True)
class CutSettings:
    lengths: Lengths = field(default_factory=Lengths)
    limits: Limits = field(default_factory=Limits)

    def as_flags(self) -> dict[str, float]:
        """By the names of their flags."""
        return {
            "shortest": self.lengths.shortest_seconds,
            "longest": self.lengths.longest_seconds,
            "least-snr": self.limits.least_snr_db,
        }


class _StoppedError(Exception):
    """The command is to end, or another recording could not be written."""


def cut_sources(
    sources: Sequence[Source],
    folder: CorpusFolder,
    settings: CutSettings,
    workers: int | None = None,
    on_progress: Callable[[str, int, int], None] = lambda unit, done, total: None,
) -> list[dict[str, Any]]:
    """The line of every recording that was ever collected here; those that are done are not redone.

    One of which nothing could be read is tried again: ffmpeg may be installed by now.

    `on_progress` counts megabytes of the recordings or, if these are small, the recordings.
    """
    done = {line["source"]: line for line in read_lines(folder.sources, SOURCE_LINE)}
    progress = _Progress(sources, on_progress)
    waiting: list[Source] = []
    for source in sources:
        if source.key in done and not is_unread(done[source.key]):
            progress.finish(source)
        else:
            waiting.append(source)
    stop = threading.Event()
    count = min(workers or os.cpu_count() or 1, max(1, len(waiting)))
    # Threads are enough: decoding, spectra and encoding run outside the interpreter's lock.
    pool = concurrent.futures.ThreadPoolExecutor(count)
    running: deque[concurrent.futures.Future[dict[str, Any]]] = deque()

    def record(line: dict[str, Any]) -> None:
        if done.get(line["source"]) != line:
            append(folder.sources, line)
        done[line["source"]] = line

    try:
        for source in waiting:
            running.append(pool.submit(_cut_one, source, folder, settings, progress, stop))
            if len(running) >= count * _AHEAD_PER_WORKER:
                record(running.popleft().result())
        while running:
            record(running.popleft().result())
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
    return _newest(done.values(), sources)


def is_unread(line: dict[str, Any]) -> bool:
    return line["problem"] is not None and not line["seconds"]


def _newest(lines: Any, sources: Sequence[Source]) -> list[dict[str, Any]]:
    """One line for each path: a recording that has changed replaces what it was."""
    keys = {readable(str(source.path)): source.key for source in sources}
    by_path: dict[str, dict[str, Any]] = {}
    for line in lines:
        if keys.get(line["path"], line["source"]) == line["source"]:
            by_path[line["path"]] = line
    return list(by_path.values())


def _cut_one(
    source: Source,
    folder: CorpusFolder,
    settings: CutSettings,
    progress: _Progress,
    stop: threading.Event,
) -> dict[str, Any]:
    clips: list[dict[str, Any]] = []
    dropped: list[dict[str, Any]] = []
    tally, problem = Tally(), None

    def go_on() -> None:
        if stop.is_set():
            raise _StoppedError

    def on_share(share: float) -> None:
        go_on()
        progress.advance(source, share)

    try:
        if readable(str(source.path)) != str(source.path):
            raise UnusableAudioError(f"{source.path}: the name is not UTF-8; rename the file")
        for found in cut_recording(source.path, settings.lengths, tally, on_share):
            go_on()
            if isinstance(found, LeftOut):
                dropped.append(_dropped(found.start_seconds, found.seconds, found.reason, ""))
                continue
            reason = unfit(found.figures, settings.limits)
            if reason is not None:
                seconds = found.samples.size / found.sample_rate_hz
                dropped.append(_dropped(found.start_seconds, seconds, *reason))
                continue
            clip_id = source.clip_id(len(clips) + 1)
            write_audio(folder.clip(clip_id), found.samples, found.sample_rate_hz)
            clips.append(_clip(clip_id, found))
    except UnusableAudioError as error:
        problem = readable(str(error))
        if tally.seconds:
            problem += f"; {tally.seconds:.0f} s before the damage were used"
    progress.finish(source)
    return {
        "source": source.key,
        "path": readable(str(source.path)),
        "seconds": round(tally.seconds, 3),
        "speech_seconds": round(tally.speech_seconds, 3),
        "reverberation_seconds": reverberation_seconds(tally.falls),
        "problem": problem,
        "clips": clips,
        "dropped": dropped,
    }


def _clip(clip_id: str, found: CutClip) -> dict[str, Any]:
    figures = {name: round(value, 5) for name, value in dataclasses.asdict(found.figures).items()}
    return {
        "id": clip_id,
        "start": round(found.start_seconds, 3),
        "seconds": round(found.samples.size / found.sample_rate_hz, 3),
        "speech_seconds": round(found.speech_seconds, 3),
        "fingerprint": found.fingerprint,
        **figures,
    }


def _dropped(start: float, seconds: float, reason: str, detail: str) -> dict[str, Any]:
    return {
        "start": round(start, 3),
        "seconds": round(seconds, 3),
        "reason": reason,
        "detail": detail,
    }


class _Progress:
    """Megabytes of all recordings, shares of those that are being cut too; or only recordings."""

    def __init__(
        self, sources: Sequence[Source], on_progress: Callable[[str, int, int], None]
    ) -> None:
        megabytes = round(sum(source.size_bytes for source in sources) / _BYTES_PER_UNIT)
        self._counts_recordings = len(sources) > megabytes
        self._total = len(sources) if self._counts_recordings else megabytes
        self._on_progress = on_progress
        self._finished = 0.0
        self._begun: dict[str, float] = {}
        self._lock = threading.Lock()

    def advance(self, source: Source, share: float) -> None:
        with self._lock:
            self._begun[source.key] = share * self._units(source)
            self._report()

    def finish(self, source: Source) -> None:
        with self._lock:
            self._begun.pop(source.key, None)
            self._finished += self._units(source)
            self._report()

    def _units(self, source: Source) -> float:
        return 1.0 if self._counts_recordings else source.size_bytes / _BYTES_PER_UNIT

    def _report(self) -> None:
        done = int(self._finished + sum(self._begun.values()))
        unit = "recording" if self._counts_recordings else "megabyte"
        self._on_progress(unit, min(self._total, done), self._total)
