"""How much speech a corpus holds, how long its clips are, and which limits follow from that.

Audio is measured by its header and not decoded. Trimming silence makes the mels that training
sees a little shorter than the lengths here, so a clip that fits a limit here fits it there.
"""

from __future__ import annotations

import concurrent.futures
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile

from myxtts.audio.files import LONGEST_AUDIO_SECONDS
from myxtts.config.config import AudioConfig, XTTSConfig
from myxtts.data.ljspeech import Utterance
from myxtts.data.shapes import IntArray, ShapePlan, plan_shapes
from myxtts.data.workers import map_in_workers
from myxtts.errors import DataError
from myxtts.models.work import multiplications
from myxtts.text.tokenizer import text_symbols

SHAPE_COUNTS = (2, 4, 8, 16)

_ROWS_PER_TASK = 256
# Starting a process takes as long as measuring some hundred clips.
_FEWEST_ROWS_FOR_PROCESSES = 2_000
# Headers come one small read at a time; threads hide how long a network folder takes for each.
_HEADER_THREADS = 8
_EDGE_TOKENS = 2
# Shapes are rounded up to these multiples in any case.
_TOKEN_MULTIPLE = 8
_FRAME_MULTIPLE = 16
# A clip longer than this many times the 99th percentile costs every batch of its shape more
# padding than it is worth.
_OUTLIER_FACTOR = 1.5
_SMALLEST_USEFUL_GAIN = 0.02
# The last batch of a shape is filled up with repeated clips, so a shape needs several batches.
_BATCHES_PER_SHAPE = 4
_SMALLEST_BATCH = 4
_FEWEST_BATCHES_PER_EPOCH = 20
# Bounds the memory of the largest batch: sixteen clips of 24 seconds at the default hop.
_MOST_FRAMES_PER_BATCH = 32_768

Progress = Callable[[int, int], None]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CorpusMeasures:
    """The lengths of the clips that can be used, in the order of the rows, and what they say."""

    rows: int
    unreadable: int
    """Clips whose audio is missing, empty, over an hour long or not audio."""
    empty_text: int
    """Clips with audio but nothing to say."""
    seconds: FloatArray
    token_counts: IntArray
    frame_counts: IntArray
    speaker_of_clip: IntArray
    speakers: tuple[str, ...]
    language_of_clip: IntArray
    languages: tuple[str, ...]
    symbols: Counter[str]
    """How often each symbol occurs; the two edge tokens of each clip are not counted."""

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
    """Measures every clip; a large corpus is divided among processes when more than one is given.

    Processes start afresh and import the calling script, which must then guard its own work with
    `if __name__ == "__main__"`. One process asks nothing of the caller.
    """
    speakers = _Numbering()
    languages = _Numbering()
    rows = 0
    parts: list[_Measured] = []
    speaker_parts: list[IntArray] = []
    language_parts: list[IntArray] = []
    symbols: Counter[str] = Counter()
    for chunk, measured in _measure_chunks(utterances, config, processes):
        usable = [item for item, use in zip(chunk, measured.usable, strict=True) if use]
        speaker_parts.append(speakers.numbers(item.speaker for item in usable))
        language_parts.append(languages.numbers(item.language for item in usable))
        symbols.update(measured.symbols)
        parts.append(measured)
        rows += len(chunk)
        on_progress(rows, len(utterances))
    unreadable = sum(part.unreadable for part in parts)
    empty_text = sum(int((~part.usable).sum()) for part in parts) - unreadable
    if rows == unreadable + empty_text:
        raise DataError(
            f"no clip can be used: of {rows} rows {unreadable} have missing or unreadable audio "
            f"and {empty_text} have nothing to say"
        )
    return CorpusMeasures(
        rows=rows,
        unreadable=unreadable,
        empty_text=empty_text,
        seconds=np.concatenate([part.seconds[part.usable] for part in parts]),
        token_counts=np.concatenate([part.token_counts[part.usable] for part in parts]),
        frame_counts=np.concatenate([part.frame_counts[part.usable] for part in parts]),
        speaker_of_clip=np.concatenate(speaker_parts),
        speakers=speakers.names,
        language_of_clip=np.concatenate(language_parts),
        languages=languages.names,
        symbols=symbols,
    )


class _Numbering:
    """Numbers for names, in the order in which the names are met."""

    def __init__(self) -> None:
        self._number_of_name: dict[str, int] = {}

    def numbers(self, names: Iterator[str]) -> IntArray:
        known = self._number_of_name
        return np.array([known.setdefault(name, len(known)) for name in names], np.int32)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._number_of_name)


@dataclass(frozen=True)
class _Measured:
    """Some consecutive rows; a row without usable audio or text has zeros."""

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


def _measure_chunks(
    utterances: Sequence[Utterance], config: XTTSConfig, processes: int
) -> Iterator[tuple[Sequence[Utterance], _Measured]]:
    """Chunks of rows with their measures, in order."""
    chunks = [
        utterances[first : first + _ROWS_PER_TASK]
        for first in range(0, len(utterances), _ROWS_PER_TASK)
    ]
    enough = processes > 1 and len(utterances) >= _FEWEST_ROWS_FOR_PROCESSES
    workers = processes if enough else 0
    measure = functools.partial(_measure_rows, config=config)
    yield from zip(chunks, map_in_workers(measure, chunks, workers), strict=True)


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
        frame_counts[row] = _mel_frames(samples, sample_rate_hz, config.audio)
        spoken = _symbols(item, config)
        if any(character.isalnum() for symbol in spoken for character in symbol):
            token_counts[row] = len(spoken) + _EDGE_TOKENS
            symbols.update(spoken)
    return _Measured(seconds, token_counts, frame_counts, symbols)


def _read_header(file: Path) -> tuple[int, int] | None:
    """Samples and sample rate, or None for what training could not read."""
    try:
        info = soundfile.info(file)
    except (soundfile.SoundFileError, OSError, ValueError, TypeError):
        return None
    if not 0 < info.frames <= LONGEST_AUDIO_SECONDS * info.samplerate:
        return None
    return info.frames, info.samplerate


def _mel_frames(samples: int, sample_rate_hz: int, audio: AudioConfig) -> int:
    resampled = round(samples * audio.sample_rate_hz / sample_rate_hz)
    return resampled // audio.hop_samples + 1


def _symbols(item: Utterance, config: XTTSConfig) -> tuple[str, ...]:
    try:
        return text_symbols(item.text, item.language, config.text.tokens)
    except DataError as error:
        raise DataError(f"{item.source}: {error}") from None


def corpus_statistics(measures: CorpusMeasures) -> dict[str, Any]:
    """Everything as plain numbers: what `get_statistics()` returns and `--json` prints."""
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
    """The share of a percentile is no longer than it: it is always the length of some clip."""
    percentile_95, percentile_99 = np.percentile(values, [95, 99], method="inverted_cdf")
    return {
        "min": _plain(values.min()),
        "median": float(np.median(values)),
        "mean": float(values.mean()),
        "percentile_95": _plain(percentile_95),
        "percentile_99": _plain(percentile_99),
        "max": _plain(values.max()),
    }


def _plain(value: Any) -> float:
    number: float = value.item()
    return number


def _shares(
    names: Sequence[str], number_of_clip: IntArray, seconds: FloatArray
) -> dict[str, dict[str, float]]:
    """Clips and hours by name, the largest share first."""
    clips = np.bincount(number_of_clip, minlength=len(names))
    totals = np.bincount(number_of_clip, seconds, len(names))
    order = np.argsort(-totals, kind="stable")
    return {
        names[number]: {"clips": int(clips[number]), "hours": _hours(totals[number])}
        for number in order
    }


def _hours(seconds: float) -> float:
    return float(seconds) / 3_600


@dataclass(frozen=True)
class Choice:
    """A way of batching and what it costs this corpus."""

    name: str
    batching: str
    shapes: int
    max_text_length: int
    max_mel_frames: int
    clips_left_out: int
    valid_frame_ratio: float
    """Real mel frames over computed ones."""
    valid_work_ratio: float
    """The same for the arithmetic of the configured model."""


def weigh_choices(measures: CorpusMeasures, config: XTTSConfig) -> list[Choice]:
    """The configuration as it is, one fixed shape at three limits, and more and more shapes."""
    choices = [_weigh(measures, config, "as configured")]
    for name, share in (("p95", 95), ("p99", 99), ("longest", 100)):
        fixed = _with_data_settings(config, batching="fixed", **_limits(measures, share))
        choices.append(_weigh(measures, fixed, f"fixed, {name}"))
    for count in SHAPE_COUNTS:
        bucketed = _with_data_settings(
            config, batching="bucketed", shape_count=count, **recommended_limits(measures)
        )
        choices.append(_weigh(measures, bucketed, f"bucketed, {count}"))
    return choices


def recommended_limits(measures: CorpusMeasures) -> dict[str, int]:
    """Limits that keep every clip but the outliers."""
    longest, usual = _limits(measures, 100), _limits(measures, 99)
    multiples = {"max_text_length": _TOKEN_MULTIPLE, "max_mel_frames": _FRAME_MULTIPLE}
    return {
        name: min(longest[name], _round_up(int(_OUTLIER_FACTOR * usual[name]), multiple))
        for name, multiple in multiples.items()
    }


def _limits(measures: CorpusMeasures, share: int) -> dict[str, int]:
    def limit(lengths: IntArray, multiple: int) -> int:
        return _round_up(int(np.percentile(lengths, share, method="inverted_cdf")), multiple)

    return {
        "max_text_length": limit(measures.token_counts, _TOKEN_MULTIPLE),
        "max_mel_frames": limit(measures.frame_counts, _FRAME_MULTIPLE),
    }


def _with_data_settings(config: XTTSConfig, **changes: Any) -> XTTSConfig:
    settings = config.as_dict()
    settings["data"] |= {"pad_to_fixed_length": False} | changes
    return XTTSConfig(**settings)


def _weigh(measures: CorpusMeasures, config: XTTSConfig, name: str) -> Choice:
    limits = {
        "max_text_length": config.data.max_text_length,
        "max_mel_frames": config.data.max_mel_frames or _limits(measures, 100)["max_mel_frames"],
    }
    batching = config.data.batching_mode
    if not _fitting(measures, limits).any():
        return Choice(
            name,
            batching,
            0,
            **limits,
            clips_left_out=len(measures),
            valid_frame_ratio=0.0,
            valid_work_ratio=0.0,
        )
    plan = plan_shapes(measures.token_counts, measures.frame_counts, config)
    return Choice(
        name,
        batching,
        len(plan.shapes),
        **limits,
        clips_left_out=sum(plan.rejected.values()),
        valid_frame_ratio=plan.valid_frame_ratio,
        valid_work_ratio=_valid_work_ratio(measures, plan, config),
    )


def _fitting(measures: CorpusMeasures, limits: Mapping[str, int]) -> npt.NDArray[np.bool_]:
    return (measures.token_counts <= limits["max_text_length"]) & (
        measures.frame_counts <= limits["max_mel_frames"]
    )


def _valid_work_ratio(measures: CorpusMeasures, plan: ShapePlan, config: XTTSConfig) -> float:
    used = plan.shape_of_clip >= 0
    shape_of_clip = plan.shape_of_clip[used]
    padded_tokens = np.array([shape.tokens for shape in plan.shapes], np.int32)[shape_of_clip]
    padded_frames = np.array([shape.frames for shape in plan.shapes], np.int32)[shape_of_clip]
    real = multiplications(measures.token_counts[used], measures.frame_counts[used], config)
    return real / multiplications(padded_tokens, padded_frames, config)


@dataclass(frozen=True)
class Recommendation:
    """Settings of the section `data`, and the reason for each that has one."""

    settings: Mapping[str, Any]
    reasons: Mapping[str, str]


def recommend(
    measures: CorpusMeasures, choices: Sequence[Choice], config: XTTSConfig
) -> Recommendation:
    """Bucketed batching, with limits, shapes and a batch size that suit this corpus."""
    limits = recommended_limits(measures)
    batch_size, why_batch = _recommended_batch_size(len(measures), limits, config)
    choice, why_shapes = _recommended_shapes(len(measures), choices, batch_size)
    reasons = {
        "shape_count": why_shapes,
        "max_text_length": _left_out(choice.clips_left_out),
        "batch_size": why_batch,
    }
    settings: dict[str, Any] = {"batching": "bucketed"}
    if config.data.pad_to_fixed_length:
        settings["pad_to_fixed_length"] = False
    settings |= {"shape_count": choice.shapes, **limits, "batch_size": batch_size}
    return Recommendation(settings, reasons)


def _left_out(clips: int) -> str:
    if clips == 0:
        return "every clip is kept"
    return f"{clips:,} clip{'' if clips == 1 else 's'} left out"


def _recommended_shapes(
    clips: int, choices: Sequence[Choice], batch_size: int
) -> tuple[Choice, str]:
    """The fewest shapes that twice as many would not improve by much."""
    bucketed = choices[-len(SHAPE_COUNTS) :]
    enough_clips = [
        choice
        for choice in bucketed
        if clips - choice.clips_left_out >= choice.shapes * batch_size * _BATCHES_PER_SHAPE
    ]
    affordable = enough_clips or bucketed[:1]
    for choice, finer in itertools.pairwise(affordable):
        gain = finer.valid_work_ratio - choice.valid_work_ratio
        if gain < _SMALLEST_USEFUL_GAIN:
            return choice, f"{finer.shapes} would raise real work by {gain:.1%}"
    if len(affordable) < len(bucketed):
        return affordable[-1], f"more would leave under {_BATCHES_PER_SHAPE} batches for each"
    return affordable[-1], "more would help, but each costs a compilation under XLA"


def _recommended_batch_size(
    clips: int, limits: Mapping[str, int], config: XTTSConfig
) -> tuple[int, str]:
    """The configured size, halved while the corpus is too small or its clips too long for it."""
    reason = "as configured"
    sizes = _configured_and_smaller_batches(config)
    for size in sizes:
        if clips < size * _FEWEST_BATCHES_PER_EPOCH:
            reason = f"more would leave under {_FEWEST_BATCHES_PER_EPOCH} batches in an epoch"
        elif limits["max_mel_frames"] * size > _MOST_FRAMES_PER_BATCH:
            reason = "more would take much memory for the longest clips"
        else:
            return size, reason
    return sizes[-1], reason


def _configured_and_smaller_batches(config: XTTSConfig) -> list[int]:
    """The configured size halved again and again; every size can be split into micro-batches."""
    micro_batches = config.training.gradient_accumulation_steps
    sizes = [config.data.batch_size]
    while sizes[-1] >= 2 * _SMALLEST_BATCH and sizes[-1] % (2 * micro_batches) == 0:
        sizes.append(sizes[-1] // 2)
    return sizes


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
