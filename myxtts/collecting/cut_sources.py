"""Cuts many recordings at a time and writes their clips; what is done is recorded at once."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from myxtts.audio.files import UnusableAudioError
from myxtts.audio.writing import write_audio
from myxtts.collecting.cutting import Lengths
from myxtts.collecting.recordings import CutClip, LeftOut, Tally, cut_recording
from myxtts.collecting.records import SOURCE_LINE, CorpusFolder, append, read_lines
from myxtts.collecting.reverberation import reverberation_seconds
from myxtts.collecting.sound_checks import Limits, unfit
from myxtts.collecting.sources import Source

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
    keys = {str(source.path): source.key for source in sources}
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
        problem = str(error)
        if tally.seconds:
            problem += f"; {tally.seconds:.0f} s before the damage were used"
    progress.finish(source)
    return {
        "source": source.key,
        "path": str(source.path),
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
