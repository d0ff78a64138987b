"""Statistics of a corpus: hours, and clip lengths.

Only audio headers are read, except of clips that are over data.max_mel_frames. Training trims
silence, so its mels are a little shorter than the lengths here: a clip within a limit here is
within it in training. One over the limit may be within it once trimmed, so its audio is trimmed
here too.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile

from myxtts.audio.ffmpeg import FfmpegError, duration_seconds, is_for_ffmpeg
from myxtts.audio.files import (
    LONGEST_AUDIO_SECONDS,
    UnusableAudioError,
    clean_recording,
    read_audio,
)
from myxtts.audio.mel import mel_frame_count
from myxtts.config.config import XTTSConfig
from myxtts.data.metadata import Utterance
from myxtts.data.sampling import IntArray
from myxtts.data.workers import map_in_workers
from myxtts.errors import DataError
from myxtts.text.tokenizer import EDGE_TOKENS, is_spoken, text_symbols

_ROWS_PER_TASK = 256
# Starting a process takes as long as measuring a few hundred clips.
_MIN_ROWS_FOR_PROCESSES = 2_000
# ffprobe reports seconds and not samples.
_PROBED_RATE_HZ = 48_000
# Each header is one small read; threads hide the latency of network folders.
_HEADER_THREADS = 8

Progress = Callable[[int, int], None]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CorpusMeasures:
    """Lengths, speakers, languages and symbols of the usable clips, in row order."""

    rows: int
    unreadable: int
    """Clips whose audio is missing, empty, over an hour long or not audio."""
    empty_text: int
    """Clips with audio but no speakable text."""
    seconds: FloatArray
    token_counts: IntArray
    frame_counts: IntArray
    speaker_of_clip: IntArray
    speakers: tuple[str, ...]
    language_of_clip: IntArray
    languages: tuple[str, ...]
    symbols: Counter[str]
    """Number of occurrences of each symbol, without the edge tokens."""

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def seconds_of_speakers(self) -> FloatArray:
        totals = np.bincount(self.speaker_of_clip, self.seconds, len(self.speakers))
        return totals.astype(np.float64)


def measure_corpus(
    utterances: Sequence[Utterance],
    config: XTTSConfig,
    *,
    processes: int = 1,
    on_progress: Progress = lambda done, total: None,
) -> CorpusMeasures:
    """Measure every clip; a large corpus is split across `processes`.

    Processes are spawned and import the calling script, which must then guard its code with
    `if __name__ == "__main__"`. With one process nothing is spawned.
    """
    # Numbers in order of first appearance.
    speakers: dict[str, int] = {}
    languages: dict[str, int] = {}
    rows = 0
    parts: list[_Measured] = []
    speaker_of_clip: list[int] = []
    language_of_clip: list[int] = []
    symbols: Counter[str] = Counter()
    chunks = [
        utterances[first : first + _ROWS_PER_TASK]
        for first in range(0, len(utterances), _ROWS_PER_TASK)
    ]
    enough = processes > 1 and len(utterances) >= _MIN_ROWS_FOR_PROCESSES
    measure = functools.partial(_measure_rows, config=config)
    results = map_in_workers(measure, chunks, processes if enough else 0)
    for chunk, measured in zip(chunks, results, strict=True):
        for item, use in zip(chunk, measured.usable, strict=True):
            if use:
                speaker_of_clip.append(speakers.setdefault(item.speaker, len(speakers)))
                language_of_clip.append(languages.setdefault(item.language, len(languages)))
        symbols.update(measured.symbols)
        parts.append(measured)
        rows += len(chunk)
        on_progress(rows, len(utterances))
    unreadable = sum(part.unreadable for part in parts)
    empty_text = sum(int((~part.usable).sum()) for part in parts) - unreadable
    if rows == unreadable + empty_text:
        raise DataError(
            f"no usable clips: of {rows} rows, {unreadable} have missing or unreadable audio and "
            f"{empty_text} have no speakable text"
        )
    return CorpusMeasures(
        rows=rows,
        unreadable=unreadable,
        empty_text=empty_text,
        seconds=np.concatenate([part.seconds[part.usable] for part in parts]),
        token_counts=np.concatenate([part.token_counts[part.usable] for part in parts]),
        frame_counts=np.concatenate([part.frame_counts[part.usable] for part in parts]),
        speaker_of_clip=np.array(speaker_of_clip, np.int32),
        speakers=tuple(speakers),
        language_of_clip=np.array(language_of_clip, np.int32),
        languages=tuple(languages),
        symbols=symbols,
    )


@dataclass(frozen=True)
class _Measured:
    """Measures of consecutive rows; rows without usable audio or text have zeros."""

    seconds: FloatArray
    token_counts: IntArray
    frame_counts: IntArray
    symbols: Counter[str]

    @property
    def usable(self) -> npt.NDArray[np.bool_]:
        return self.token_counts > 0

    @property
    def unreadable(self) -> int:
        return int((self.frame_counts == 0).sum())


def _measure_rows(rows: Sequence[Utterance], config: XTTSConfig) -> _Measured:
    with concurrent.futures.ThreadPoolExecutor(min(_HEADER_THREADS, len(rows))) as pool:
        headers = list(pool.map(_read_header, (item.audio_path for item in rows)))
    seconds = np.zeros(len(rows))
    token_counts = np.zeros(len(rows), np.int32)
    frame_counts = np.zeros(len(rows), np.int32)
    symbols: Counter[str] = Counter()
    for row, (item, header) in enumerate(zip(rows, headers, strict=True)):
        if header is None:
            continue
        samples, sample_rate_hz = header
        seconds[row] = samples / sample_rate_hz
        resampled = round(samples * config.audio.sample_rate_hz / sample_rate_hz)
        frame_counts[row] = mel_frame_count(resampled, config.audio)
        if frame_counts[row] > (config.data.max_mel_frames or frame_counts[row]):
            with contextlib.suppress(UnusableAudioError):
                waveform = read_audio(item.audio_path, config.audio.sample_rate_hz)
                trimmed = clean_recording(waveform, config.audio)
                frame_counts[row] = mel_frame_count(trimmed.size, config.audio)
        try:
            spoken = text_symbols(
                item.text, item.language, config.text.tokens, ezafe=config.text.ezafe
            )
        except DataError as error:
            raise DataError(f"{item.source}: {error}") from None
        if any(map(is_spoken, spoken)):
            token_counts[row] = len(spoken) + EDGE_TOKENS
            symbols.update(spoken)
    return _Measured(seconds, token_counts, frame_counts, symbols)


def _read_header(file: Path) -> tuple[int, int] | None:
    """Return samples and sample rate, or None if training could not read the file."""
    try:
        if is_for_ffmpeg(file):
            sample_rate_hz = _PROBED_RATE_HZ
            frames = round(duration_seconds(file) * sample_rate_hz)
        else:
            with (
                open(file, "rb") as stream,
                soundfile.SoundFile(stream.fileno(), closefd=False) as sound,
            ):
                frames, sample_rate_hz = sound.frames, sound.samplerate
    except (FfmpegError, soundfile.SoundFileError, OSError, ValueError, TypeError):
        return None
    is_usable = 0 < frames <= LONGEST_AUDIO_SECONDS * sample_rate_hz
    return (frames, sample_rate_hz) if is_usable else None


def corpus_statistics(measures: CorpusMeasures) -> dict[str, Any]:
    """Return plain numbers, as returned by `get_statistics()` and printed by `--json`."""
    return {
        "rows": measures.rows,
        "clips": len(measures),
        "unreadable": measures.unreadable,
        "empty_text": measures.empty_text,
        "hours": _hours(measures.seconds.sum()),
        "clip_seconds": _summary(measures.seconds),
        "text_length": _summary(measures.token_counts),
        "mel_length": _summary(measures.frame_counts),
        "speakers": _shares(measures.speakers, measures.speaker_of_clip, measures.seconds),
        "languages": _shares(measures.languages, measures.language_of_clip, measures.seconds),
        "token_inventory": dict(measures.symbols.most_common()),
    }


def _summary(values: npt.NDArray[Any]) -> dict[str, float]:
    """Summarize lengths. Percentiles are not interpolated: each is the length of some clip."""
    percentile_95, percentile_99 = np.percentile(values, [95, 99], method="inverted_cdf")
    return {
        "min": values.min().item(),
        "median": float(np.median(values)),
        "mean": float(values.mean()),
        "percentile_95": percentile_95.item(),
        "percentile_99": percentile_99.item(),
        "max": values.max().item(),
    }


def _shares(
    names: Sequence[str], number_of_clip: IntArray, seconds: FloatArray
) -> dict[str, dict[str, float]]:
    """Return clips and hours by name, largest first."""
    clips = np.bincount(number_of_clip, minlength=len(names))
    totals = np.bincount(number_of_clip, seconds, len(names))
    order = np.argsort(-totals, kind="stable")
    return {
        names[number]: {"clips": int(clips[number]), "hours": _hours(totals[number])}
        for number in order
    }


def _hours(seconds: float) -> float:
    return float(seconds) / 3_600
