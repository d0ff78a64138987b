"""Checks of a whole corpus: every clip on its own, and clips against each other.

Clips are read in worker processes, which return a small record for each and never a waveform, so
memory does not depend on the length of the recordings.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from myxtts.audio.files import FloatArray
from myxtts.config.config import XTTSConfig
from myxtts.data.checks import (
    Caution,
    Finding,
    Rejection,
    check_clip,
    clip_cautions,
    duplicate_audio,
)
from myxtts.data.layout import Layout
from myxtts.data.metadata import ONE_SPEAKER, Utterance, metadata_files, read_metadata
from myxtts.data.workers import map_in_workers, worker_count
from myxtts.errors import DataError
from myxtts.text.languages import normalise
from myxtts.wording import plural

CLEAN_HEADER = "audio_file|text|speaker_name|language"

_CLIPS_PER_TASK = 16
_DIGEST_BYTES = 12
# Speaking rates are compared with the median only if there are enough of them, and only in clips
# long enough that pauses do not dominate.
_FEWEST_CLIPS_TO_COMPARE = 20
_SHORTEST_COMPARED_SECONDS = 1.0
_UNUSUAL_DEVIATIONS = 5.0
_UNUSUAL_FACTOR = 2.0
# Median absolute deviation to standard deviation, for a normal distribution.
_DEVIATION_OF_MEDIAN = 1.4826

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class MetadataFile:
    """A parsed metadata file."""

    path: Path
    layout: Layout
    utterances: tuple[Utterance, ...]
    bad_rows: int

    @property
    def rows(self) -> int:
        return len(self.utterances) + self.bad_rows


@dataclass(frozen=True)
class CorpusReport:
    """All findings in a corpus, in row order."""

    folder: Path
    files: tuple[MetadataFile, ...]
    findings: tuple[Finding, ...]
    seconds: float
    """Total length of the usable clips."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "error"]

    @property
    def warnings(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "warning"]

    @property
    def rejected_sources(self) -> set[str]:
        return {finding.source for finding in self.errors}

    def counts(self) -> list[tuple[str, str, int]]:
        """Reason, severity and number of clips: errors first, then by frequency."""
        clips: Counter[tuple[str, str]] = Counter()
        for finding in self.findings:
            clips[finding.severity, finding.reason] += finding.clips
        ordered = sorted(clips.items(), key=lambda entry: (entry[0][0], -entry[1]))
        return [(reason, severity, count) for (severity, reason), count in ordered]


@dataclass(frozen=True)
class _ClipRecord:
    """Result of checking a clip; for a clip with errors, only the errors."""

    findings: tuple[Finding, ...]
    sample_rate_hz: int = 0
    seconds: float = 0.0
    """Without the silence at its ends."""
    recorded_seconds: float = 0.0
    """With it, as `myxtts stats` counts from the headers."""
    spoken_symbols: int = 0
    audio_digest: bytes = b""
    text_digest: bytes = b""


def check_corpus(
    folder: Path, config: XTTSConfig, on_progress: Progress = lambda done, total: None
) -> CorpusReport:
    """Checks every row and audio file; raises if a metadata file cannot be read at all."""
    train_file, eval_file = metadata_files(folder)
    bad_rows: list[Finding] = []
    files = [
        _read_file(path, config, bad_rows) for path in (train_file, eval_file) if path is not None
    ]
    utterances = [item for file in files for item in file.utterances]
    records: list[_ClipRecord] = []
    for record in _check_clips(utterances, config):
        records.append(record)
        on_progress(len(records), len(utterances))
    findings = [
        *bad_rows,
        *(finding for record in records for finding in record.findings),
        *duplicate_audio(utterances, [record.audio_digest for record in records]),
        *_duplicate_texts(utterances, records),
        *_unusual_rates(utterances, records, config),
    ]
    findings.sort(key=_position_in(files))
    name = files[0].path.name
    findings += _other_sample_rates(records, name, config)
    rejected = {finding.source for finding in findings if finding.severity == "error"}
    findings += _small_speakers(files[0].utterances, records, rejected, name, config)
    seconds = sum(
        record.recorded_seconds
        for item, record in zip(utterances, records, strict=True)
        if item.source not in rejected
    )
    return CorpusReport(folder, tuple(files), tuple(findings), seconds)


def write_clean_metadata(report: CorpusReport, file: MetadataFile, out: Path) -> int:
    """Writes the rows without errors to `out` and returns their number."""
    rejected = report.rejected_sources
    rows = [
        _clean_row(report.folder, item) for item in file.utterances if item.source not in rejected
    ]
    if not rows:
        raise DataError(f"{out}: not written; every row of {file.path} has errors")
    try:
        # Mode x never overwrites a file, not even one created since the command started.
        with open(out, "x", encoding="utf-8", newline="\n") as stream:
            stream.write("\n".join([CLEAN_HEADER, *rows]) + "\n")
    except FileExistsError:
        raise DataError(f"{out}: already exists; choose another name") from None
    except OSError as error:
        raise DataError(f"{out}: cannot be written ({error.strerror})") from None
    return len(rows)


def _clean_row(folder: Path, item: Utterance) -> str:
    name = item.audio_path.relative_to(folder).as_posix()
    if "|" in name:
        raise DataError(f"{folder}: '{name}' has a | in its name; rename it to write a clean file")
    cells = [cell.replace("|", " ") for cell in (item.text, item.speaker, item.language)]
    return "|".join([name, *cells])


def _read_file(path: Path, config: XTTSConfig, bad_rows: list[Finding]) -> MetadataFile:
    before = len(bad_rows)
    layout, utterances = read_metadata(
        path,
        config.text.default_language,
        layout=config.data.layout,
        delimiter=config.data.delimiter,
        on_bad_row=lambda source, problem: bad_rows.append(Rejection(source, "bad row", problem)),
    )
    return MetadataFile(path, layout, tuple(utterances), len(bad_rows) - before)


def _position_in(files: Sequence[MetadataFile]) -> Callable[[Finding], tuple[int, int]]:
    order = {file.path.name: number for number, file in enumerate(files)}

    def position(finding: Finding) -> tuple[int, int]:
        name, _, line = finding.source.rpartition(":")
        return order[name], int(line)

    return position


def _check_clips(utterances: Sequence[Utterance], config: XTTSConfig) -> Iterator[_ClipRecord]:
    """Records in row order, from worker processes if there are enough clips."""
    tasks = [
        utterances[first : first + _CLIPS_PER_TASK]
        for first in range(0, len(utterances), _CLIPS_PER_TASK)
    ]
    check = functools.partial(_check_task, config=config)
    workers = worker_count(config.data.workers, len(tasks))
    for records in map_in_workers(check, tasks, workers):
        yield from records


def _check_task(task: Sequence[Utterance], config: XTTSConfig) -> list[_ClipRecord]:
    return [_check_one(item, config) for item in task]


def _check_one(item: Utterance, config: XTTSConfig) -> _ClipRecord:
    clip = check_clip(item, config)
    findings = (*clip.rejections, *clip_cautions(item, clip, config))
    if clip.recording is None:
        return _ClipRecord(findings)
    if clip.rejections:
        return _ClipRecord(findings, clip.recording.sample_rate_hz)
    return _ClipRecord(
        findings,
        clip.recording.sample_rate_hz,
        clip.waveform.size / config.audio.sample_rate_hz,
        clip.recording.samples.size / clip.recording.sample_rate_hz,
        clip.spoken_symbols,
        _audio_digest(clip.recording.samples),
        _text_digest(item),
    )


def _audio_digest(samples: FloatArray) -> bytes:
    """Digest of the decoded samples, so equal across lossless formats."""
    steps = np.round(samples * 32_767).astype(np.int32)
    return hashlib.blake2b(steps.tobytes(), digest_size=_DIGEST_BYTES).digest()


def _text_digest(item: Utterance) -> bytes:
    said = "\0".join((item.speaker, item.language, normalise(item.text, item.language).lower()))
    return hashlib.blake2b(said.encode(), digest_size=_DIGEST_BYTES).digest()


def _duplicate_texts(
    utterances: Sequence[Utterance], records: Sequence[_ClipRecord]
) -> Iterator[Finding]:
    first_with: dict[bytes, int] = {}
    for index, (item, record) in enumerate(zip(utterances, records, strict=True)):
        if not record.text_digest:
            continue
        first = first_with.setdefault(record.text_digest, index)
        if first != index and records[first].audio_digest != record.audio_digest:
            by_speaker = "" if item.speaker == ONE_SPEAKER else f" and speaker ({item.speaker})"
            yield Caution(
                item.source,
                "duplicate text",
                f"same text{by_speaker} as {utterances[first].source}",
            )


def _unusual_rates(
    utterances: Sequence[Utterance], records: Sequence[_ClipRecord], config: XTTSConfig
) -> Iterator[Finding]:
    """Clips whose speaking rate is far from the median of their language."""
    rates_of: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for index, record in enumerate(records):
        if record.seconds >= _SHORTEST_COMPARED_SECONDS and record.spoken_symbols:
            rate = record.spoken_symbols / record.seconds
            rates_of[utterances[index].language].append((index, rate))
    for rates in rates_of.values():
        if len(rates) < _FEWEST_CLIPS_TO_COMPARE:
            continue
        logarithms = np.log([rate for _, rate in rates])
        median = float(np.median(logarithms))
        deviation = _DEVIATION_OF_MEDIAN * float(np.median(np.abs(logarithms - median)))
        limit = max(_UNUSUAL_DEVIATIONS * deviation, float(np.log(_UNUSUAL_FACTOR)))
        for (index, rate), logarithm in zip(rates, logarithms, strict=True):
            if abs(logarithm - median) > limit:
                yield Caution(
                    utterances[index].source,
                    "unusual speaking rate",
                    f"{rate:.1f} {config.text.tokens} per second, the median is "
                    f"{np.exp(median):.1f}; does this text belong to this clip?",
                )


def _other_sample_rates(
    records: Sequence[_ClipRecord], source: str, config: XTTSConfig
) -> Iterator[Finding]:
    """One finding per sample rate, whatever the number of clips."""
    wanted_hz = config.audio.sample_rate_hz
    counts = Counter(record.sample_rate_hz for record in records)
    for rate_hz in sorted(rate for rate in counts if rate not in (0, wanted_hz)):
        clips = f"{counts[rate_hz]} {plural(counts[rate_hz], 'clip')}"
        empty = rate_hz / 2 < config.audio.highest_hz
        lost = f", with nothing above {rate_hz / 2_000:g} kHz" if empty else ""
        yield Caution(
            source,
            "other sample rate",
            f"{clips} at {rate_hz} Hz, resampled to {wanted_hz} Hz{lost}",
            counts[rate_hz],
        )


def _small_speakers(
    utterances: Sequence[Utterance],
    records: Sequence[_ClipRecord],
    rejected: Collection[str],
    source: str,
    config: XTTSConfig,
) -> Iterator[Finding]:
    """Training speakers with too little audio; training clips come first in the records."""
    seconds: dict[str, float] = defaultdict(float)
    clips: Counter[str] = Counter()
    for item, record in zip(utterances, records, strict=False):
        is_usable = item.source not in rejected
        seconds[item.speaker] += record.seconds * is_usable
        clips[item.speaker] += is_usable
    least_seconds = config.data.min_speaker_seconds
    for speaker in sorted(seconds):
        if seconds[speaker] < least_seconds:
            who = "the one speaker" if speaker == ONE_SPEAKER else speaker
            yield Caution(
                source,
                "small speaker",
                f"{who} has {seconds[speaker]:.1f} s in {clips[speaker]} usable "
                f"{plural(clips[speaker], 'clip')}, data.min_speaker_seconds is "
                f"{least_seconds:g}",
                clips[speaker],
            )
