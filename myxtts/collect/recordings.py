"""Cuts recordings of any length into clips, block by block, several recordings in parallel."""

from __future__ import annotations

import concurrent.futures
import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile

from myxtts.audio.ffmpeg import FfmpegError
from myxtts.audio.files import FloatArray, UnusableAudioError, open_stream, write_audio
from myxtts.collect.activity import (
    HOP_SECONDS,
    Figures,
    Floats,
    Lengths,
    Span,
    band_levels_db,
    find_speech,
    fingerprint,
    hop_samples,
    measure,
    plan_cuts,
    safe_end,
    speech_runs,
    unfit,
)
from myxtts.collect.folder import SOURCE_LINE, CorpusFolder, append, read_lines, readable
from myxtts.data.metadata import AUDIO_EXTENSIONS
from myxtts.errors import DataError

_ENDINGS = frozenset(
    {
        *AUDIO_EXTENSIONS,
        *(".aif", ".aiff", ".au", ".caf", ".flv", ".mpg", ".mpeg", ".ts"),
        *(".m4p", ".aax"),  # usually protected, which is reported
    }
)
_MAX_STEM = 40
_KEY_DIGITS = 12
# Limit on speech without a pause that is held in memory.
_BLOCK_SECONDS = 90.0
_BEFORE_SECONDS = 30.0
_MIN_SECONDS = 0.1
_MIN_RATE_HZ = 8_000  # telephones
# tracks are padded, and headers are rounded
_MIN_SHARE_OF_WHOLE = 0.95
_DAMAGE = (FfmpegError, soundfile.LibsndfileError, OSError)
TOO_SHORT, NO_PAUSE = "too short", "no pause to cut at"


@dataclass(frozen=True)
class Source:
    path: Path
    size_bytes: int
    key: str
    """Key of the file, which changes with its content."""

    def clip_id(self, number: int) -> str:
        """Return an id that is unique and shows where the clip comes from."""
        stem = re.sub(r"[^\w-]+", "_", self.path.stem)[:_MAX_STEM].strip("_") or "clip"
        return f"{stem}-{self.key[:6]}-{number:04d}"


def find_sources(places: Sequence[Path], out: Path) -> list[Source]:
    """Return the recordings in files and folders, in the order of their names, without `out`."""
    sources: dict[Path, Source] = {}
    for place in places:
        if not place.exists():
            raise DataError(f"{place}: no such file or folder; expected recordings")
        files = _files_below(place.resolve(), out.resolve()) if place.is_dir() else [place]
        for file in files:
            if file.suffix.lower() in _ENDINGS or file is place:
                path = file.resolve() if file is place or file.is_symlink() else file
                try:
                    status = path.stat()
                    size_bytes, changed_ns = status.st_size, status.st_mtime_ns
                except OSError:  # a broken link, reported when it is read
                    size_bytes, changed_ns = 0, 0
                identity = os.fsencode(f"{path}\0{size_bytes}\0{changed_ns}")
                key = hashlib.sha256(identity).hexdigest()[:_KEY_DIGITS]
                sources.setdefault(path, Source(path, size_bytes, key))
    if not sources:
        named = ", ".join(map(str, places))
        raise DataError(f"{named}: contains no audio or video; expected wav, mp3, m4a, mp4 or such")
    return list(sources.values())


def _files_below(folder: Path, out: Path) -> Iterator[Path]:
    for current, folders, files in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and Path(current, name) != out
        )
        yield from (Path(current, name) for name in sorted(files) if not name.startswith("."))


class CutClip(NamedTuple):
    samples: FloatArray
    sample_rate_hz: int
    start_seconds: float
    speech_seconds: float
    """Duration of speech, without pauses."""
    figures: Figures
    fingerprint: str


class LeftOut(NamedTuple):
    """Speech that is not part of a clip."""

    start_seconds: float
    seconds: float
    reason: str


@dataclass
class Tally:
    """Seconds of a recording; filled while it is cut."""

    seconds: float = 0.0
    speech_seconds: float = 0.0


def cut_recording(
    file: Path,
    lengths: Lengths,
    tally: Tally,
    on_progress: Callable[[float], None] = lambda share: None,
) -> Iterator[CutClip | LeftOut]:
    """Yield clips and dropped speech, in order; `on_progress` gets the fraction that is done."""
    with open_stream(file) as stream:
        rate_hz = stream.sample_rate_hz
        if rate_hz < _MIN_RATE_HZ:
            raise UnusableAudioError(
                f"{file}: found a sample rate of {rate_hz} Hz, expected at least {_MIN_RATE_HZ}"
            )
        pending: list[FloatArray] = []
        before: Floats | None = None
        first_frame = 0
        damage: Exception | None = None
        blocks = iter(stream.blocks)
        while True:
            try:
                block = next(blocks, None)
            except _DAMAGE as error:  # cut what comes before it first
                damage, block = error, None
            if block is None:
                break
            pending.append(block)
            tally.seconds += block.size / rate_hz
            if sum(part.size for part in pending) < _BLOCK_SECONDS * rate_hz:
                continue
            part = _Part(np.concatenate(pending), rate_hz, lengths, first_frame, before)
            end = safe_end(part.runs, part.frames)
            yield from part.cut(end, tally)
            before = part.frames_before(end)
            pending, first_frame = [part.samples[end * part.hop :]], first_frame + end
            on_progress(min(1.0, tally.seconds / (stream.declared_seconds or np.inf)))
        if sum(part.size for part in pending) >= _MIN_SECONDS * rate_hz:
            if tally.seconds < lengths.min_seconds:  # no need to look for speech in it
                yield LeftOut(0.0, tally.seconds, TOO_SHORT)
            else:
                last = _Part(np.concatenate(pending), rate_hz, lengths, first_frame, before)
                yield from last.cut(last.frames, tally)
        if damage is not None:
            raise damage
        if tally.seconds < _MIN_SHARE_OF_WHOLE * (stream.whole_seconds or 0.0) - 1.0:
            raise UnusableAudioError(
                f"{file}: found {tally.seconds:.0f} s of {stream.whole_seconds:.0f} s; the end is "
                "missing or damaged"
            )


class _Part:
    """The part of a recording that is in memory."""

    def __init__(
        self,
        samples: FloatArray,
        rate_hz: int,
        lengths: Lengths,
        first_frame: int,
        before: Floats | None,
    ) -> None:
        self.samples, self._rate_hz, self.hop = samples, rate_hz, hop_samples(rate_hz)
        self._lengths, self._first_frame = lengths, first_frame
        bands_db = band_levels_db(samples, rate_hz)
        self.frames = len(bands_db)
        self._before = bands_db[:0] if before is None else before
        self._activity = find_speech(bands_db, self._before)
        self.runs = speech_runs(self._activity, lengths.max_seconds)

    def frames_before(self, end: int) -> Floats:
        """Return the context for the next part."""
        known = np.concatenate([self._before, self._activity.bands_db[:end]])
        return known[-round(_BEFORE_SECONDS / HOP_SECONDS) :]

    def cut(self, end: int, tally: Tally) -> Iterator[CutClip | LeftOut]:
        runs = [run for run in self.runs if run.end <= end]
        tally.speech_seconds += sum(run.seconds for run in runs)
        cuts = plan_cuts(runs, end, self._lengths)
        for reason, spans in ((TOO_SHORT, cuts.too_short), (NO_PAUSE, cuts.no_pause)):
            for span in spans:
                yield LeftOut(self._seconds(span), span.seconds, reason)
        for clip in cuts.clips:
            samples = self.samples[clip.start * self.hop : clip.end * self.hop]
            figures = measure(samples, self._rate_hz, self._activity, clip)
            yield CutClip(
                samples - np.float32(figures.dc_offset),
                self._rate_hz,
                self._seconds(clip),
                float(self._activity.is_speech[clip.start : clip.end].sum()) * HOP_SECONDS,
                figures,
                fingerprint(self._activity.bands_db[clip.start : clip.end]),
            )

    def _seconds(self, span: Span) -> float:
        return (self._first_frame + span.start) * self.hop / self._rate_hz


class _StoppedError(Exception):
    """The command is to end, or another recording could not be written."""


def cut_sources(
    sources: Sequence[Source],
    folder: CorpusFolder,
    lengths: Lengths,
    min_snr_db: float,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] = lambda megabytes, total: None,
) -> list[dict[str, Any]]:
    """Return the line of every recording collected so far, cutting only new ones.

    Unreadable recordings are tried again, in case ffmpeg has been installed.
    """
    done = {line["source"]: line for line in read_lines(folder.sources, SOURCE_LINE)}
    waiting = [one for one in sources if one.key not in done or is_unread(done[one.key])]
    bytes_of = {source.key: max(1, source.size_bytes) for source in waiting}
    shares = dict.fromkeys(bytes_of, 0.0)
    bytes_done = 0.0
    lock, stop = threading.Lock(), threading.Event()

    def advance(source: Source, share: float) -> None:
        nonlocal bytes_done
        if stop.is_set():
            raise _StoppedError
        with lock:
            bytes_done += (share - shares[source.key]) * bytes_of[source.key]
            shares[source.key] = share
            on_progress(int(bytes_done) >> 20, max(1, sum(bytes_of.values()) >> 20))

    def cut(source: Source) -> dict[str, Any]:
        line = _cut_one(source, folder, lengths, min_snr_db, lambda share: advance(source, share))
        advance(source, 1.0)
        return line

    # Threads are enough: decoding, spectra and encoding run outside the interpreter's lock.
    with concurrent.futures.ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        try:
            for line in pool.map(cut, waiting):
                if done.get(line["source"]) != line:
                    append(folder.sources, line)
                done[line["source"]] = line
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
    # One line per path: a changed recording replaces the old one.
    keys = {readable(str(source.path)): source.key for source in sources}
    newest = {
        line["path"]: line
        for line in done.values()
        if keys.get(line["path"], line["source"]) == line["source"]
    }
    return list(newest.values())


def is_unread(line: dict[str, Any]) -> bool:
    return line["problem"] is not None and not line["seconds"]


def _cut_one(
    source: Source,
    folder: CorpusFolder,
    lengths: Lengths,
    min_snr_db: float,
    on_share: Callable[[float], None],
) -> dict[str, Any]:
    clips: list[dict[str, Any]] = []
    dropped: list[dict[str, Any]] = []
    tally, problem = Tally(), None
    try:
        if readable(str(source.path)) != str(source.path):
            raise UnusableAudioError(f"{source.path}: the name is not UTF-8; rename the file")
        for found in cut_recording(source.path, lengths, tally, on_share):
            place = {"start": round(found.start_seconds, 3)}
            if isinstance(found, LeftOut):
                seconds, reason = found.seconds, (found.reason, "")
            else:
                seconds = found.samples.size / found.sample_rate_hz
                reason = unfit(found.figures, min_snr_db) or ("", "")
            place["seconds"] = round(seconds, 3)
            if isinstance(found, LeftOut) or reason[0]:
                dropped.append({**place, "reason": reason[0], "detail": reason[1]})
                continue
            clip_id = source.clip_id(len(clips) + 1)
            write_audio(folder.clip(clip_id), found.samples, found.sample_rate_hz)
            clips.append(
                {
                    "id": clip_id,
                    **place,
                    "speech_seconds": round(found.speech_seconds, 3),
                    "fingerprint": found.fingerprint,
                }
            )
    except UnusableAudioError as error:
        problem = readable(str(error))
        if tally.seconds:
            problem += f"; {tally.seconds:.0f} s before the damage were used"
    return {
        "source": source.key,
        "path": readable(str(source.path)),
        "seconds": round(tally.seconds, 3),
        "speech_seconds": round(tally.speech_seconds, 3),
        "problem": problem,
        "clips": clips,
        "dropped": dropped,
    }
