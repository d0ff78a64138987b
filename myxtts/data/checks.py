"""Check the clips of a corpus: errors exclude a clip from training, warnings do not.

Training and `myxtts validate` both call `check_clip` for each clip. `check_corpus` also compares
clips with each other. It runs in worker processes without TensorFlow. They return a small record
for each clip, so memory does not depend on the length of the recordings.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from myxtts.audio.files import (
    FloatArray,
    Recording,
    UnusableAudioError,
    clean_with_start,
    read_recording,
    window_levels,
)
from myxtts.audio.mel import mel_frame_count
from myxtts.config.config import AudioConfig, XTTSConfig
from myxtts.data.metadata import ONE_SPEAKER, Metadata, Utterance, find_metadata
from myxtts.data.workers import map_in_workers, worker_count
from myxtts.errors import DataError, plural, quoted
from myxtts.text.languages import (
    normalize,
    other_script,
    parse_tag,
    script_name,
    suggested_language,
)
from myxtts.text.tokenizer import (
    EDGE_TOKENS,
    describe_left_out,
    is_spoken,
    left_out_symbols,
    text_symbols,
    unsayable,
)

TOO_MANY_FRAMES, TOO_MANY_TOKENS = "clip too long", "text too long"
OVER_LIMITS = frozenset((TOO_MANY_FRAMES, TOO_MANY_TOKENS))
"""Reasons that depend on the length limits and not on the clip alone."""
CLEAN_HEADER = "audio_file|text|speaker_name|language"

_MIN_CLIP_SECONDS = 0.2
_SILENT_DBFS = -60.0
# Some programs write a byte or two less than the header declares; that is not truncation.
_TOLERATED_MISSING_SECONDS = 0.02
# Outside this range the text does not match the audio.
_SYMBOLS_PER_SECOND = (1.0, 30.0)
# In shorter clips pauses dominate the speaking rate.
_MIN_RATED_SECONDS = 2.0
# Less is hardly enough to learn a voice from.
MIN_SPEAKER_SECONDS = 60
# Clipping leaves runs of samples at the extreme value; a single such sample is just a peak.
_CLIPPED_RUN_SAMPLES = 3
_CLIPPED_SHARE = 0.0005
_MIN_CLIPPED_PEAK = 0.5
_SAMPLE_STEP = 1.5 / 32_768
# Recorded speech has noise above this level, relative to its loudest band; upsampling adds none.
_EMPTY_BAND_DB = -75.0
# Quantization noise of 16 bits, which is in every band even of a quiet recording.
_ROUNDING_POWER = 1 / (12 * 32_768**2)
_BAND_SHARE = 0.8
_SPECTRUM_SAMPLES = 1_024
_MAX_SYMBOLS_SHOWN = 10

_CLIPS_PER_TASK = 16
_DIGEST_BYTES = 12
# Speaking rates are compared with the median only if there are enough of them, and only in clips
# long enough that pauses do not dominate.
_MIN_CLIPS_TO_COMPARE = 20
_MIN_COMPARED_SECONDS = 1.0
_UNUSUAL_DEVIATIONS = 5.0
_UNUSUAL_FACTOR = 2.0
# Median absolute deviation to standard deviation, for a normal distribution.
_DEVIATION_OF_MEDIAN = 1.4826

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Finding:
    """A problem in a corpus: its location, its category (`reason`) and the details."""

    source: str
    reason: str
    detail: str
    clips: int = 1
    """Number of clips affected."""
    severity: str = "error"
    """A clip with an error is excluded from training; a warning is worth checking."""

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}: {self.detail}"


def _caution(source: str, reason: str, detail: str, clips: int = 1) -> Finding:
    return Finding(source, reason, detail, clips, "warning")


def too_many_rejected(left_out: int, clips: int, config: XTTSConfig) -> bool:
    """Return whether a run would stop; `clips` counts the usable and the rejected ones."""
    return left_out == clips or left_out > config.data.max_rejected_fraction * clips


def override_option(left_out: int, clips: int) -> str:
    """Return the option that lets a run start although this many clips are left out."""
    return f"--set data.max_rejected_fraction={math.ceil(100 * left_out / clips) / 100:g}"


@dataclass(frozen=True)
class CheckedClip:
    """A clip ready for training, or the reasons why it is rejected."""

    symbols: tuple[str, ...]
    recording: Recording | None
    waveform: FloatArray
    """Resampled, normalized and trimmed; empty if there is no recording."""
    rejections: tuple[Finding, ...]
    symbol_ends: FloatArray | None = None
    """Where the silence before the symbols and each symbol end, as a fraction of the waveform."""

    @property
    def spoken_symbols(self) -> int:
        return sum(map(is_spoken, self.symbols))


def check_clip(item: Utterance, config: XTTSConfig) -> CheckedClip:
    """Read a clip and report every kind of error in it, the first of each kind."""
    rate_hz = config.audio.sample_rate_hz
    recording, waveform, start = None, np.zeros(0, np.float32), 0
    try:
        recording = read_recording(item.audio_path)
    except UnusableAudioError as error:
        problems = [(error.reason, str(error))]
    else:
        waveform, start = clean_with_start(recording.at_rate(rate_hz), config.audio)
        problems = list(_audio_problems(recording, waveform, config))[:1]
    symbols: tuple[str, ...] = ()
    pronunciation = item.pronunciation if config.text.tokens == "phonemes" else None
    try:
        symbols = (
            text_symbols(item.text, item.language, config.text.tokens, ezafe=config.text.ezafe)
            if pronunciation is None
            else pronunciation.symbols
        )
    except DataError as error:
        problems.append(("no pronunciation", str(error)))
    else:
        problems += list(_text_problems(item, symbols, config))[:1]
    problems = problems or list(_mismatches(symbols, waveform, config))[:1]
    ends = None
    if pronunciation is not None and not problems:
        times = np.array([pronunciation.start, *pronunciation.ends]) - start / rate_hz
        ends = np.clip(times * rate_hz / waveform.size, 0.0, 1.0).astype(np.float32)
    rejections = tuple(Finding(item.source, *problem) for problem in problems)
    return CheckedClip(symbols, recording, waveform, rejections, ends)


def _audio_problems(
    recording: Recording, waveform: FloatArray, config: XTTSConfig
) -> Iterator[tuple[str, str]]:
    present_seconds = recording.samples.size / recording.sample_rate_hz
    sound_seconds = waveform.size / config.audio.sample_rate_hz
    if recording.missing_seconds > _TOLERATED_MISSING_SECONDS:
        whole_seconds = present_seconds + recording.missing_seconds
        yield "truncated audio", f"{present_seconds:.2f} s of {whole_seconds:.2f} s present"
    if min(present_seconds, sound_seconds) < _MIN_CLIP_SECONDS:
        yield "too short", f"{sound_seconds:.2f} s of audio"
    # The level of the loudest window, without DC offset.
    samples = recording.samples - recording.samples.mean()
    level = float(window_levels(samples, recording.sample_rate_hz).max())
    if level <= 0:
        yield "silent audio", "digital silence"
    elif (level_dbfs := 20 * float(np.log10(level))) < _SILENT_DBFS:
        yield "silent audio", f"the loudest part is {level_dbfs:.0f} dBFS"
    frames, max_frames = mel_frame_count(waveform.size, config.audio), config.data.max_mel_frames
    if max_frames is not None and frames > max_frames:
        yield TOO_MANY_FRAMES, f"{frames} frames, data.max_mel_frames is {max_frames}"


def _text_problems(
    item: Utterance, symbols: tuple[str, ...], config: XTTSConfig
) -> Iterator[tuple[str, str]]:
    script = other_script(item.text, item.language, takes_latin=config.text.tokens == "phonemes")
    if script is not None:
        yield (
            "another script",
            f"{quoted(item.text)} is written in {script_name(script)} letters, but its language "
            f"is '{item.language}'; add --language {suggested_language(script)} or a language "
            "column",
        )
    if not any(map(is_spoken, symbols)):
        yield "empty text", f"nothing to say in {quoted(item.text)}"
    tokens, max_tokens = len(symbols) + EDGE_TOKENS, config.data.max_text_length
    if tokens > max_tokens:
        yield TOO_MANY_TOKENS, f"{tokens} tokens, data.max_text_length is {max_tokens}"


def _mismatches(
    symbols: tuple[str, ...], waveform: FloatArray, config: XTTSConfig
) -> Iterator[tuple[str, str]]:
    """Check whether the text can match the recording."""
    frames, tokens = mel_frame_count(waveform.size, config.audio), len(symbols) + EDGE_TOKENS
    if frames // config.model.frames_per_position < tokens:
        yield (
            "too short for its text",
            f"{frames} frames for {tokens} tokens; does this text belong to this clip?",
        )
    seconds = waveform.size / config.audio.sample_rate_hz
    rate = sum(map(is_spoken, symbols)) / seconds
    slowest, fastest = _SYMBOLS_PER_SECOND
    if rate > fastest or (rate < slowest and seconds > _MIN_RATED_SECONDS):
        yield (
            "text does not fit",
            f"{rate:.1f} {config.text.tokens} per second is an implausible speaking rate; "
            "does this text belong to this clip?",
        )


def duplicate_audio(utterances: Iterable[Utterance], digests: Iterable[bytes]) -> Iterator[Finding]:
    """Find clips with the same audio as an earlier clip; an empty digest matches nothing."""
    first_with: dict[bytes, Utterance] = {}
    for item, digest in zip(utterances, digests, strict=True):
        first = first_with.setdefault(digest, item) if digest else item
        if first is not item:
            text = "the same text" if first.text == item.text else "another text"
            yield Finding(
                item.source, "duplicate audio", f"same audio as {first.source}, with {text}"
            )


def clip_cautions(item: Utterance, clip: CheckedClip, config: XTTSConfig) -> Iterator[Finding]:
    """Find reasons for warnings about a clip."""
    silent = left_out_symbols(item.text, item.language)
    if silent and clip.spoken_symbols:
        yield _caution(item.source, "symbols left out", describe_left_out(silent))
    if clip.symbols:
        words = normalize(item.text, item.language)
        strange = unsayable(words, item.language, config.text.tokens)
        if strange:
            shown = " ".join(strange[:_MAX_SYMBOLS_SHOWN])
            more = " ..." if len(strange) > _MAX_SYMBOLS_SHOWN else ""
            yield _caution(
                item.source,
                "unknown symbols",
                f"{shown}{more} cannot be pronounced in language {item.language}",
            )
    if clip.recording is None or clip.rejections:
        return
    share = clipped_share(clip.recording.samples)
    if share > _CLIPPED_SHARE:
        yield _caution(item.source, "clipped audio", f"{share:.1%} of the samples are clipped")
    bandwidth_hz = missing_band_hz(clip.recording, config.audio)
    if bandwidth_hz is not None:
        yield _caution(
            item.source,
            "band-limited audio",
            f"nothing above {bandwidth_hz / 1_000:.1f} kHz at {clip.recording.sample_rate_hz} Hz; "
            "upsampled from a lower rate?",
        )


def clipped_share(samples: FloatArray) -> float:
    """Return the fraction of samples in runs at the recording's maximum or minimum value."""
    if np.abs(samples).max() < _MIN_CLIPPED_PEAK:
        return 0.0
    at_limit = (samples >= samples.max() - _SAMPLE_STEP) | (samples <= samples.min() + _SAMPLE_STEP)
    edges = np.flatnonzero(np.diff(at_limit, prepend=False, append=False))
    runs = edges[1::2] - edges[::2]
    return float(runs[runs >= _CLIPPED_RUN_SAMPLES].sum() / samples.size)


def missing_band_hz(recording: Recording, audio: AudioConfig) -> float | None:
    """Return the bandwidth if it leaves mel bands empty that the sample rate could fill."""
    if recording.samples.size < _SPECTRUM_SAMPLES:
        return None
    limit_hz = min(audio.highest_hz, recording.sample_rate_hz / 2)
    windows = np.lib.stride_tricks.sliding_window_view(recording.samples, _SPECTRUM_SAMPLES)
    shape = np.hanning(_SPECTRUM_SAMPLES)
    spectra = np.fft.rfft(windows[:: _SPECTRUM_SAMPLES // 2] * shape)
    power = np.mean(np.abs(spectra) ** 2, axis=0)
    bins_hz = np.fft.rfftfreq(_SPECTRUM_SAMPLES, 1 / recording.sample_rate_hz)
    rounding_power = _ROUNDING_POWER * float(np.sum(shape**2))
    empty_power = max(float(power.max()) * 10 ** (_EMPTY_BAND_DB / 10), 2 * rounding_power)
    filled = power > empty_power
    highest_hz = float(bins_hz[np.flatnonzero(filled)[-1]]) if filled.any() else 0.0
    return highest_hz if highest_hz < _BAND_SHARE * limit_hz else None


@dataclass(frozen=True)
class CorpusReport:
    """All findings in a corpus, in row order."""

    folder: Path
    files: tuple[Metadata, ...]
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
        """Return reason, severity and number of clips: errors first, then by frequency."""
        clips: Counter[tuple[str, str]] = Counter()
        for finding in self.findings:
            clips[finding.severity, finding.reason] += finding.clips
        ordered = sorted(clips.items(), key=lambda entry: (entry[0][0], -entry[1]))
        return [(reason, severity, count) for (severity, reason), count in ordered]


@dataclass(frozen=True)
class _ClipRecord:
    """Values that are compared across clips; for a clip with errors, only the errors."""

    findings: tuple[Finding, ...]
    sample_rate_hz: int = 0
    seconds: float = 0.0
    """Length without silence at either end."""
    recorded_seconds: float = 0.0
    """Length with that silence, as `myxtts stats` counts from the headers."""
    spoken_symbols: int = 0
    audio_digest: bytes = b""
    text_digest: bytes = b""


def check_corpus(
    folder: Path, config: XTTSConfig, on_progress: Progress = lambda done, total: None
) -> CorpusReport:
    """Check every row and audio file; raise if a metadata file cannot be read at all."""
    layout, paths = find_metadata(folder)
    language = parse_tag(config.text.default_language, "text.default_language")
    files = [layout.read(path, language, config.data.layout) for path in paths.values()]
    findings: list[Finding] = [
        Finding(source, "bad row", problem) for file in files for source, problem in file.bad_rows
    ]
    utterances = [item for file in files for item in file.utterances]
    # From worker processes if there are enough clips, in row order.
    tasks = [
        utterances[first : first + _CLIPS_PER_TASK]
        for first in range(0, len(utterances), _CLIPS_PER_TASK)
    ]
    check = functools.partial(_check_task, config=config)
    records: list[_ClipRecord] = []
    for done in map_in_workers(check, tasks, worker_count(config.data.workers, len(tasks))):
        for record in done:
            records.append(record)
            on_progress(len(records), len(utterances))
    findings += [finding for record in records for finding in record.findings]
    findings += duplicate_audio(utterances, [record.audio_digest for record in records])
    findings += _duplicate_texts(utterances, records)
    findings += _unusual_rates(utterances, records, config)
    order = {file.path.name: number for number, file in enumerate(files)}

    def position(finding: Finding) -> tuple[int, int]:
        name, _, line = finding.source.rpartition(":")
        return order.get(name, 0), int(line) if line.isdecimal() else 0

    findings.sort(key=position)
    name = files[0].path.name
    findings += _other_sample_rates(records, name, config)
    rejected = {finding.source for finding in findings if finding.severity == "error"}
    findings += _small_speakers(files[0].utterances, records, rejected, name)
    seconds = sum(
        record.recorded_seconds
        for item, record in zip(utterances, records, strict=True)
        if item.source not in rejected
    )
    return CorpusReport(folder, tuple(files), tuple(findings), seconds)


def _check_task(task: Sequence[Utterance], config: XTTSConfig) -> list[_ClipRecord]:
    records = []
    for item in task:
        clip = check_clip(item, config)
        findings = (*clip.rejections, *clip_cautions(item, clip, config))
        recording = clip.recording
        if recording is None:
            records.append(_ClipRecord(findings))
            continue
        if clip.rejections:
            records.append(_ClipRecord(findings, recording.sample_rate_hz))
            continue
        # Decoded samples, so the digest is equal across lossless formats.
        sound = np.round(recording.samples * 32_767).astype(np.int32).tobytes()
        words = normalize(item.text, item.language).lower()
        text = "\0".join((item.speaker, item.language, words)).encode()
        records.append(
            _ClipRecord(
                findings,
                recording.sample_rate_hz,
                clip.waveform.size / config.audio.sample_rate_hz,
                recording.samples.size / recording.sample_rate_hz,
                clip.spoken_symbols,
                hashlib.blake2b(sound, digest_size=_DIGEST_BYTES).digest(),
                hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest(),
            )
        )
    return records


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
            yield _caution(
                item.source,
                "duplicate text",
                f"same text{by_speaker} as {utterances[first].source}",
            )


def _unusual_rates(
    utterances: Sequence[Utterance], records: Sequence[_ClipRecord], config: XTTSConfig
) -> Iterator[Finding]:
    """Find clips whose speaking rate is far from the median of their language."""
    rates_of: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for index, record in enumerate(records):
        if record.seconds >= _MIN_COMPARED_SECONDS and record.spoken_symbols:
            rate = record.spoken_symbols / record.seconds
            rates_of[utterances[index].language].append((index, rate))
    for rates in rates_of.values():
        if len(rates) < _MIN_CLIPS_TO_COMPARE:
            continue
        logarithms = np.log([rate for _, rate in rates])
        median = float(np.median(logarithms))
        deviation = _DEVIATION_OF_MEDIAN * float(np.median(np.abs(logarithms - median)))
        limit = max(_UNUSUAL_DEVIATIONS * deviation, float(np.log(_UNUSUAL_FACTOR)))
        for (index, rate), logarithm in zip(rates, logarithms, strict=True):
            if abs(logarithm - median) > limit:
                yield _caution(
                    utterances[index].source,
                    "unusual speaking rate",
                    f"{rate:.1f} {config.text.tokens} per second, the median is "
                    f"{np.exp(median):.1f}; does this text belong to this clip?",
                )


def _other_sample_rates(
    records: Sequence[_ClipRecord], source: str, config: XTTSConfig
) -> Iterator[Finding]:
    """Return one finding per sample rate, for any number of clips."""
    wanted_hz = config.audio.sample_rate_hz
    counts = Counter(record.sample_rate_hz for record in records)
    for rate_hz in sorted(rate for rate in counts if rate not in (0, wanted_hz)):
        clips = f"{counts[rate_hz]} {plural(counts[rate_hz], 'clip')}"
        empty = rate_hz / 2 < config.audio.highest_hz
        lost = f", with nothing above {rate_hz / 2_000:g} kHz" if empty else ""
        yield _caution(
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
) -> Iterator[Finding]:
    """Find training speakers with too little audio; training clips come first in the records."""
    seconds: dict[str, float] = defaultdict(float)
    clips: Counter[str] = Counter()
    for item, record in zip(utterances, records, strict=False):
        is_usable = item.source not in rejected
        seconds[item.speaker] += record.seconds * is_usable
        clips[item.speaker] += is_usable
    for speaker in sorted(seconds):
        if seconds[speaker] < MIN_SPEAKER_SECONDS:
            who = "the one speaker" if speaker == ONE_SPEAKER else speaker
            yield _caution(
                source,
                "small speaker",
                f"{who} has {seconds[speaker]:.1f} s in {clips[speaker]} usable "
                f"{plural(clips[speaker], 'clip')}, {MIN_SPEAKER_SECONDS} s or more recommended",
                clips[speaker],
            )


def write_clean_metadata(report: CorpusReport, file: Metadata, out: Path) -> int:
    """Write the rows without errors to `out` and return their number."""
    rejected = report.rejected_sources
    rows = []
    for item in file.utterances:
        if item.source in rejected:
            continue
        name = item.audio_path.relative_to(report.folder).as_posix()
        if "|" in name:
            raise DataError(
                f"{report.folder}: '{name}' has a | in its name; rename it to write a clean file"
            )
        cells = [cell.replace("|", " ") for cell in (item.text, item.speaker, item.language)]
        rows.append("|".join([name, *cells]))
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
