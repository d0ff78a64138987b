"""Statistics of a corpus, settings that suit it, and the compilations they would cause.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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
from myxtts.config.config import BATCHING_MODES, XTTSConfig
from myxtts.data.checks import override_option, too_many_rejected
from myxtts.data.metadata import Utterance
from myxtts.data.schedule import PlannedBatch, Schedule
from myxtts.data.shapes import (
    COMPILE_SECONDS_PER_SHAPE,
    TOKEN_MULTIPLE,
    Clips,
    FloatArray,
    IntArray,
    computed_multiplications,
    frame_multiple,
    plan_shapes,
    real_multiplications,
    round_up,
    with_recommended_batch_size,
)
from myxtts.data.workers import map_in_workers
from myxtts.errors import DataError, MyXTTSError, plural, plural_count
from myxtts.files import write_file
from myxtts.text.tokenizer import EDGE_TOKENS, is_spoken, text_symbols

_ROWS_PER_TASK = 256
# Starting a process takes as long as measuring a few hundred clips.
_MIN_ROWS_FOR_PROCESSES = 2_000
# ffprobe reports seconds and not samples.
_PROBED_RATE_HZ = 48_000
# Each header is one small read; threads hide the latency of network folders.
_HEADER_THREADS = 8
_SHAPE_COUNTS = (2, 4, 8, 16)
# A clip longer than this multiple of the 99th percentile is an outlier: it costs more padding than
# it is worth.
_OUTLIER_FACTOR = 1.5
# Number of steps to examine; the rest behave the same.
_EXAMINED_STEPS = 2_000
_MAX_NAMED_SPEAKERS = 12

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class CorpusMeasures:
    """Lengths, speakers, languages and symbols of the usable clips, in row order."""

    rows: int
    unreadable: int
    """Clips whose audio is missing, empty, over an hour long or not audio."""
    empty_text: int
    """Clips with audio but no speakable text."""
    seconds: FloatArray
    clips: Clips
    speakers: tuple[str, ...]
    languages: tuple[str, ...]
    symbols: Counter[str]
    """Number of occurrences of each symbol, without the edge tokens."""


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
    rows = range(0, len(utterances), _ROWS_PER_TASK)
    tasks = [utterances[first : first + _ROWS_PER_TASK] for first in rows]
    enough = processes > 1 and len(utterances) >= _MIN_ROWS_FOR_PROCESSES
    measure = functools.partial(_measure_rows, config=config)
    parts = []
    for part in map_in_workers(measure, tasks, processes if enough else 0):
        parts.append(part)
        on_progress(min(len(parts) * _ROWS_PER_TASK, len(utterances)), len(utterances))
    seconds, tokens, frames = (np.concatenate([part[it] for part in parts]) for it in range(3))
    usable = tokens > 0
    unreadable = int((frames == 0).sum())
    empty_text = int((~usable).sum()) - unreadable
    if not usable.any():
        raise DataError(
            f"no usable clips: of {len(utterances)} rows, {unreadable} have missing or unreadable "
            f"audio and {empty_text} have no speakable text"
        )
    # Numbers in order of first appearance.
    speakers: dict[str, int] = {}
    languages: dict[str, int] = {}
    used = [item for item, use in zip(utterances, usable, strict=True) if use]
    speaker_of = [speakers.setdefault(item.speaker, len(speakers)) for item in used]
    language_of = [languages.setdefault(item.language, len(languages)) for item in used]
    labels = np.array(speaker_of, np.int32), np.array(language_of, np.int32)
    return CorpusMeasures(
        rows=len(utterances),
        unreadable=unreadable,
        empty_text=empty_text,
        seconds=seconds[usable],
        clips=Clips(tokens[usable], frames[usable], *labels),
        speakers=tuple(speakers),
        languages=tuple(languages),
        symbols=sum((symbols for *_, symbols in parts), Counter()),
    )


def _measure_rows(
    rows: Sequence[Utterance], config: XTTSConfig
) -> tuple[FloatArray, IntArray, IntArray, Counter[str]]:
    """Return seconds, tokens and frames, zeros without usable audio or text, and symbols."""
    with concurrent.futures.ThreadPoolExecutor(min(_HEADER_THREADS, len(rows))) as pool:
        headers = list(pool.map(_read_header, (item.audio_path for item in rows)))
    seconds = np.zeros(len(rows))
    tokens, frames = np.zeros((2, len(rows)), np.int32)
    symbols: Counter[str] = Counter()
    for row, (item, header) in enumerate(zip(rows, headers, strict=True)):
        if header is None:
            continue
        samples, sample_rate_hz = header
        seconds[row] = samples / sample_rate_hz
        resampled = round(samples * config.audio.sample_rate_hz / sample_rate_hz)
        frames[row] = mel_frame_count(resampled, config.audio)
        if frames[row] > (config.data.max_mel_frames or frames[row]):
            with contextlib.suppress(UnusableAudioError):
                waveform = read_audio(item.audio_path, config.audio.sample_rate_hz)
                trimmed = clean_recording(waveform, config.audio)
                frames[row] = mel_frame_count(trimmed.size, config.audio)
        try:
            spoken = text_symbols(
                item.text, item.language, config.text.tokens, ezafe=config.text.ezafe
            )
        except DataError as error:
            raise DataError(f"{item.source}: {error}") from None
        if any(map(is_spoken, spoken)):
            tokens[row] = len(spoken) + EDGE_TOKENS
            symbols.update(spoken)
    return seconds, tokens, frames, symbols


def _read_header(file: Path) -> tuple[int, int] | None:
    """Return samples and sample rate, or None if training could not read the file."""
    try:
        if is_for_ffmpeg(file):
            sample_rate_hz = _PROBED_RATE_HZ
            samples = round(duration_seconds(file) * sample_rate_hz)
        else:
            with soundfile.SoundFile(file) as sound:
                samples, sample_rate_hz = sound.frames, sound.samplerate
    except (FfmpegError, soundfile.SoundFileError, OSError, ValueError, TypeError):
        return None
    is_usable = 0 < samples <= LONGEST_AUDIO_SECONDS * sample_rate_hz
    return (samples, sample_rate_hz) if is_usable else None


def corpus_statistics(measures: CorpusMeasures) -> dict[str, Any]:
    """Return plain numbers, as returned by `get_statistics()` and printed by `--json`."""

    def summary(values: npt.NDArray[Any]) -> dict[str, float]:
        # Percentiles are not interpolated: each is the length of some clip.
        percentile_95, percentile_99 = np.percentile(values, [95, 99], method="inverted_cdf")
        return {
            "min": values.min().item(),
            "median": float(np.median(values)),
            "mean": float(values.mean()),
            "percentile_95": percentile_95.item(),
            "percentile_99": percentile_99.item(),
            "max": values.max().item(),
        }

    def shares(names: Sequence[str], number_of_clip: IntArray) -> dict[str, dict[str, float]]:
        """Return clips and hours by name, largest first."""
        clips = np.bincount(number_of_clip, minlength=len(names))
        hours = np.bincount(number_of_clip, measures.seconds, len(names)) / 3_600
        return {
            names[number]: {"clips": int(clips[number]), "hours": float(hours[number])}
            for number in np.argsort(-hours, kind="stable")
        }

    clips = measures.clips
    return {
        "rows": measures.rows,
        "clips": len(measures.seconds),
        "unreadable": measures.unreadable,
        "empty_text": measures.empty_text,
        "hours": float(measures.seconds.sum()) / 3_600,
        "clip_seconds": summary(measures.seconds),
        "text_length": summary(clips.token_counts),
        "mel_length": summary(clips.frame_counts),
        "speakers": shares(measures.speakers, clips.speakers),
        "languages": shares(measures.languages, clips.languages),
        "token_inventory": dict(measures.symbols.most_common()),
    }


def save_histograms(measures: CorpusMeasures, file: Path) -> None:
    """Draw clip lengths, text lengths and the audio of each speaker as a PNG."""
    from myxtts.charts import BLUE, ORANGE, RED, as_png, new_figure, plain, style

    figure = new_figure(1_200, 1_200)
    counts = (
        plural_count(len(measures.seconds), "clip"),
        f"{measures.seconds.sum() / 3_600:.2f} hours",
        plural_count(len(measures.speakers), "speaker"),
        plural_count(len(measures.languages), "language"),
    )
    figure.suptitle(", ".join(counts), fontsize=16)
    lengths, texts, speakers = figure.subplots(3)

    def draw(panel: Any, values: npt.NDArray[Any], title: str, unit: str, of: str) -> None:
        percentiles = np.percentile(values, [95, 99], method="inverted_cdf")
        # Longer clips share the last bar, so that outliers do not compress the rest.
        end = min(values.max(), _OUTLIER_FACTOR * percentiles[1])
        panel.hist(np.minimum(values, end), bins=40, color=BLUE, rwidth=0.9)
        for percent, value, color in zip((95, 99), percentiles, (ORANGE, RED), strict=True):
            panel.axvline(value, color=color, label=f"{percent}% up to {value:,.3g} {unit}")
        panel.legend(loc="upper right", bbox_to_anchor=(1, 1.15), ncols=2, frameon=False)
        panel.set(xlabel=unit, ylabel=of)
        style(panel, title)

    draw(lengths, measures.seconds, "Clip length", "seconds", "clips")
    draw(texts, measures.clips.token_counts, "Text length", "tokens", "clips")
    minutes = np.bincount(measures.clips.speakers, measures.seconds) / 60
    title = "Audio per speaker"
    if len(minutes) > _MAX_NAMED_SPEAKERS:
        draw(speakers, minutes, title, "minutes", "speakers")
    else:
        order = np.argsort(-minutes, kind="stable")
        names = [plain(measures.speakers[place][:12]) for place in order]
        speakers.bar(range(len(order)), minutes[order], width=0.6, color=BLUE)
        speakers.set_xticks(range(len(order)), names)
        speakers.set_ylabel("minutes")
        style(speakers, title)
    try:
        write_file(file, as_png(figure))
    except OSError as error:
        raise DataError(f"{file}: cannot be written ({error.strerror or error})") from None


@dataclass(frozen=True)
class Choice:
    """A batching mode and its cost for this corpus."""

    name: str
    batching: str
    shapes: int
    max_text_length: int
    max_mel_frames: int
    clips_left_out: int
    valid_frame_ratio: float
    """Real mel frames over computed ones."""
    valid_work_ratio: float
    """The same for the work of the configured model."""


def weigh_choices(
    measures: CorpusMeasures, config: XTTSConfig, *, xla: bool = False
) -> list[Choice]:
    """Compare the configuration, one fixed shape at three limits, and several shapes."""
    clips = measures.clips
    choices = [_weigh(clips, config, "as configured", xla=xla)]
    for name, percent in (("p95", 95), ("p99", 99), ("longest", 100)):
        limits = _limits(clips, config, percent)
        fixed = config.with_(pad_to_fixed_length=False, batching="fixed", **limits)
        choices.append(_weigh(clips, fixed, f"fixed, {name}"))
    for count in _SHAPE_COUNTS:
        limits = _recommended_limits(clips, config)
        bucketed = config.with_(
            pad_to_fixed_length=False, batching="bucketed", shape_count=count, **limits
        )
        choices.append(_weigh(clips, bucketed, f"bucketed, {count}"))
    return choices


def _weigh(clips: Clips, config: XTTSConfig, name: str, *, xla: bool = False) -> Choice:
    data = config.data
    max_frames = data.max_mel_frames
    if max_frames is None:
        # The longest clip whose text fits, as `train` derives it.
        fits = clips.fitting(data.max_text_length, None)
        longest = clips.frame_counts[fits if fits.any() else slice(None)].max()
        max_frames = round_up(int(longest), frame_multiple(config))
    limits = data.max_text_length, max_frames
    fitting = int(clips.fitting(*limits).sum())
    if not fitting:
        return Choice(name, data.batching_mode, 0, *limits, len(clips.token_counts), 0.0, 0.0)
    plan = plan_shapes(clips, config, xla=xla)
    return Choice(
        name,
        data.batching_mode,
        len(plan.shapes),
        *limits,
        clips_left_out=len(clips.token_counts) - fitting,
        valid_frame_ratio=plan.valid_frame_ratio,
        valid_work_ratio=plan.valid_work_ratio,
    )


def _limits(clips: Clips, config: XTTSConfig, percent: int) -> dict[str, int]:
    def limit(lengths: IntArray, multiple: int) -> int:
        return round_up(int(np.percentile(lengths, percent, method="inverted_cdf")), multiple)

    return {
        "max_text_length": limit(clips.token_counts, TOKEN_MULTIPLE),
        "max_mel_frames": limit(clips.frame_counts, frame_multiple(config)),
    }


def _recommended_limits(clips: Clips, config: XTTSConfig) -> dict[str, int]:
    """Return limits that exclude only outliers."""
    longest, usual = _limits(clips, config, 100), _limits(clips, config, 99)
    multiples = {"max_text_length": TOKEN_MULTIPLE, "max_mel_frames": frame_multiple(config)}
    return {
        name: min(longest[name], round_up(int(_OUTLIER_FACTOR * usual[name]), multiple))
        for name, multiple in multiples.items()
    }


class DataRecommendation(NamedTuple):
    """Settings of section `data`, with reasons."""

    settings: Mapping[str, Any]
    reasons: Mapping[str, str]


def recommend(
    measures: CorpusMeasures, choices: Sequence[Choice], config: XTTSConfig
) -> DataRecommendation:
    """Recommend bucketed batching with limits and a batch size for this corpus.

    The planner chooses the number of shapes.
    """
    limits = _recommended_limits(measures.clips, config)
    _, batch = with_recommended_batch_size(measures.clips, config.with_(**limits))
    left_out = choices[-1].clips_left_out
    settings: dict[str, Any] = {"batching": "bucketed"}
    if config.data.pad_to_fixed_length:
        settings["pad_to_fixed_length"] = False
    if config.data.shape_count is not None:
        settings["shape_count"] = None
    settings |= {**limits, "batch_size": batch.size}
    left = f"{left_out:,} {plural(left_out, 'clip')} left out" if left_out else "keeps every clip"
    return DataRecommendation(settings, {"max_text_length": left, "batch_size": batch.reason})


@dataclass(frozen=True)
class Prediction:
    """Prediction for one batching mode over the first `steps` steps."""

    batching: str
    steps: int
    shapes: int
    """Number of distinct batch shapes."""
    traces: int
    compilations: int
    """XLA compilations: one per shape and replica."""
    compilations_after_warmup: int
    compile_seconds: float
    """Estimated, at COMPILE_SECONDS_PER_SHAPE each."""
    clips_left_out: int
    valid_frame_ratio: float
    valid_work_ratio: float


@dataclass(frozen=True)
class Diagnosis:
    configured: str
    xla: bool
    replicas: int
    clips: int
    predictions: tuple[Prediction, ...]
    """One per possible batching mode."""
    unusable: int
    """Clips that are left out regardless of their length; not among `clips`."""
    would_stop: bool
    """Whether training would refuse to start because too many clips are left out."""

    @property
    def prediction(self) -> Prediction:
        """Prediction for the configured mode."""
        return next(item for item in self.predictions if item.batching == self.configured)

    @property
    def would_compile_again(self) -> bool:
        return self.prediction.compilations_after_warmup > 0


def diagnose(
    clips: Clips, config: XTTSConfig, *, xla: bool, replicas: int = 1, unusable: int = 0
) -> Diagnosis:
    """Predict from clip lengths only; nothing is traced or trained.

    `unusable` clips have no lengths; they count only for whether training would stop.
    """
    mode, count = config.data.batching_mode, len(clips.token_counts)
    predictions = {mode: _predict(clips, config, xla, replicas)}
    for other in BATCHING_MODES:
        # A failure of another mode is not a problem of this configuration.
        with contextlib.suppress(MyXTTSError):
            changed = config.with_(pad_to_fixed_length=False, batching=other)
            predictions.setdefault(other, _predict(clips, changed, xla, replicas))
    left_out = predictions[mode].clips_left_out + unusable
    return Diagnosis(
        configured=mode,
        xla=xla,
        replicas=replicas,
        clips=count,
        predictions=tuple(predictions[it] for it in BATCHING_MODES if it in predictions),
        unusable=unusable,
        would_stop=too_many_rejected(left_out, count + unusable, config),
    )


def _predict(clips: Clips, config: XTTSConfig, xla: bool, replicas: int) -> Prediction:
    plan = plan_shapes(clips, config, replicas=replicas, xla=xla)
    schedule = Schedule(clips, plan, config)
    steps = min(schedule.planned_steps(config.training), _EXAMINED_STEPS)
    shapes, after_warmup = set(plan.shapes), 0
    ratios = plan.valid_frame_ratio, plan.valid_work_ratio
    if plan.dynamic:
        # Warm-up compiles only the shape that fits every clip; all others are compiled later.
        batches = [schedule.batch_at(step) for step in range(steps)]
        met = {batch.shape for batch in batches}
        after_warmup = len(met - shapes)
        shapes |= met
        ratios = measured_ratios(clips, batches, config)
    compilations = replicas * len(shapes) if xla else 0
    return Prediction(
        batching=config.data.batching_mode,
        steps=steps,
        shapes=len(shapes),
        traces=1,
        compilations=compilations,
        compilations_after_warmup=replicas * after_warmup if xla else 0,
        compile_seconds=compilations * COMPILE_SECONDS_PER_SHAPE,
        clips_left_out=sum(plan.rejected.values()),
        valid_frame_ratio=ratios[0],
        valid_work_ratio=ratios[1],
    )


def measured_ratios(
    clips: Clips, batches: Iterable[PlannedBatch], config: XTTSConfig
) -> tuple[float, float]:
    """Return real over computed frames and work of batches."""
    frames, work = np.zeros(2), np.zeros(2)
    for batch in batches:
        shape = batch.shape
        tokens, lengths = clips.token_counts[batch.clips], clips.frame_counts[batch.clips]
        frames += (lengths.sum(), shape.batch * shape.frames)
        slots = np.array(shape.slots * batch.shares / shape.batch)
        computed = computed_multiplications(
            np.array(shape.tokens), np.array(shape.frames), slots, config
        )
        real = real_multiplications(tokens, lengths, lengths, config)
        work += (real.sum(), shape.batch * float(computed))
    return float(frames[0] / frames[1]), float(work[0] / work[1])


def advise(diagnosis: Diagnosis, config: XTTSConfig) -> list[str]:
    """Name the cause of the compilations, what to change, and other remarks."""
    predicted = diagnosis.prediction
    bucketed = next((it for it in diagnosis.predictions if it.batching == "bucketed"), None)
    sentences = []
    if diagnosis.would_compile_again:
        few = "a few" if bucketed is None else bucketed.shapes
        sentences += [
            "Cause: with data.batching: dynamic every batch is as long as its longest clip, which "
            f"gives {predicted.shapes} shapes in {predicted.steps} steps; XLA compiles each one.",
            f"Change: data.batching: bucketed has {few} shapes, compiled once before the first "
            "step.",
        ]
    elif predicted.batching == "dynamic":
        sentences.append(
            "XLA is off, so one trace is enough for all lengths; with XLA each of the "
            f"{predicted.shapes} shapes would be compiled. Change: data.batching: bucketed."
        )
    elif predicted.batching == "fixed" and bucketed is not None:
        gain = bucketed.valid_work_ratio - predicted.valid_work_ratio
        if gain > 0.02:
            sentences.append(
                f"{gain:.0%} less of the computation would be spent on padding with "
                "data.batching: bucketed (and without pad_to_fixed_length)."
            )
    if predicted.clips_left_out:
        share = predicted.clips_left_out / diagnosis.clips
        sentences.append(
            f"{predicted.clips_left_out} clips ({share:.1%}) are over data.max_text_length or "
            "data.max_mel_frames and are left out; myxtts stats shows limits that keep more."
        )
    if diagnosis.would_stop:
        left_out = predicted.clips_left_out + diagnosis.unusable
        rows = diagnosis.clips + diagnosis.unusable
        sentences.append(
            f"Training would stop: {left_out} of {rows} clips are unusable, more than "
            f"data.max_rejected_fraction = {config.data.max_rejected_fraction:g} allows. To "
            f"continue without these clips: {override_option(left_out, rows)}."
        )
    return sentences


def typical_lengths(count: int = 5_000) -> Clips:
    """Draw lengths like those of LJSpeech, read speech: 1.1 to 10.1 s, 6.6 s on average."""
    generator = np.random.default_rng(0)
    seconds = generator.normal(6.9, 2.2, 2 * count)
    return clips_lasting(seconds[(seconds > 1.1) & (seconds < 10.1)][:count], generator)


def clips_lasting(seconds: FloatArray, generator: np.random.Generator) -> Clips:
    """Draw clips of one speaker: 14 tokens (with a spread of 8 %) and 86 mel frames per second."""
    tokens = seconds * 14 * generator.normal(1, 0.08, seconds.size)
    one_speaker = np.zeros(seconds.size, np.int32)
    lengths = tokens.astype(np.int32), (seconds * 86).astype(np.int32)
    return Clips(*lengths, one_speaker, one_speaker)
