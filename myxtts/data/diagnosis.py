"""Recommend limits, shapes and a batch size for a corpus, and predict compilations.

`train` uses the recommended batch size, `stats` shows the choices, `diagnose` the prediction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.config.config import BATCHING_MODES, XTTSConfig
from myxtts.data.metadata import Utterance
from myxtts.data.sampling import ClipLabels, IntArray
from myxtts.data.schedule import Clips, Schedule
from myxtts.data.shapes import (
    COMPILE_SECONDS_PER_SHAPE,
    TOKEN_MULTIPLE,
    Shape,
    computed_multiplications,
    frame_multiple,
    plan_shapes,
    real_multiplications,
    round_up,
)
from myxtts.data.statistics import CorpusMeasures, measure_corpus
from myxtts.data.workers import worker_count
from myxtts.errors import DataError, MyXTTSError, plural

SHAPE_COUNTS = (2, 4, 8, 16)
# `tune` does not try larger batches than leave this many steps per epoch.
FEWEST_BATCHES_PER_EPOCH = 20
_KEPT_PERCENT = (99, 95, 80)
# A clip longer than this multiple of the 99th percentile is an outlier: it costs more padding than
# it is worth.
_OUTLIER_FACTOR = 1.5
_MIN_BATCH = 4
# Limits the memory of the largest batch: 16 clips of 24 seconds at the default hop.
_MAX_FRAMES_PER_BATCH = 32_768
# Number of steps to examine; the rest behave the same.
_EXAMINED_STEPS = 2_000


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
    choices = [_weigh(measures, config, "as configured", xla=xla)]
    for name, percent in (("p95", 95), ("p99", 99), ("longest", 100)):
        fixed = _with_data_settings(config, batching="fixed", **_limits(measures, config, percent))
        choices.append(_weigh(measures, fixed, f"fixed, {name}"))
    for count in SHAPE_COUNTS:
        bucketed = _with_data_settings(
            config, batching="bucketed", shape_count=count, **_recommended_limits(measures, config)
        )
        choices.append(_weigh(measures, bucketed, f"bucketed, {count}"))
    return choices


def _weigh(measures: CorpusMeasures, config: XTTSConfig, name: str, *, xla: bool = False) -> Choice:
    data = config.data
    max_mel_frames = data.max_mel_frames
    if max_mel_frames is None:
        # The longest clip whose text fits, as `train` derives it.
        fits = measures.token_counts <= data.max_text_length
        longest = measures.frame_counts[fits if fits.any() else slice(None)].max()
        max_mel_frames = round_up(int(longest), frame_multiple(config))
    limits = {"max_text_length": data.max_text_length, "max_mel_frames": max_mel_frames}
    if not _fitting(measures, **limits).any():
        return Choice(
            name,
            data.batching_mode,
            0,
            **limits,
            clips_left_out=len(measures),
            valid_frame_ratio=0.0,
            valid_work_ratio=0.0,
        )
    labels = ClipLabels(measures.speaker_of_clip, measures.language_of_clip)
    plan = plan_shapes(measures.token_counts, measures.frame_counts, config, xla=xla, labels=labels)
    return Choice(
        name,
        data.batching_mode,
        len(plan.shapes),
        **limits,
        clips_left_out=sum(plan.rejected.values()),
        valid_frame_ratio=plan.valid_frame_ratio,
        valid_work_ratio=plan.valid_work_ratio,
    )


def _with_data_settings(config: XTTSConfig, **changes: Any) -> XTTSConfig:
    return config.with_(**{"pad_to_fixed_length": False} | changes)


def _fitting(
    clips: Clips | CorpusMeasures, max_text_length: int, max_mel_frames: int | None
) -> npt.NDArray[np.bool_]:
    fits: npt.NDArray[np.bool_] = clips.token_counts <= max_text_length
    return fits if max_mel_frames is None else fits & (clips.frame_counts <= max_mel_frames)


def _limits(measures: CorpusMeasures, config: XTTSConfig, percent: int) -> dict[str, int]:
    def limit(lengths: IntArray, multiple: int) -> int:
        return round_up(int(np.percentile(lengths, percent, method="inverted_cdf")), multiple)

    return {
        "max_text_length": limit(measures.token_counts, TOKEN_MULTIPLE),
        "max_mel_frames": limit(measures.frame_counts, frame_multiple(config)),
    }


def _recommended_limits(measures: CorpusMeasures, config: XTTSConfig) -> dict[str, int]:
    """Return limits that exclude only outliers."""
    longest, usual = _limits(measures, config, 100), _limits(measures, config, 99)
    multiples = {"max_text_length": TOKEN_MULTIPLE, "max_mel_frames": frame_multiple(config)}
    return {
        name: min(longest[name], round_up(int(_OUTLIER_FACTOR * usual[name]), multiple))
        for name, multiple in multiples.items()
    }


@dataclass(frozen=True)
class DataRecommendation:
    """Settings of section `data`, with reasons."""

    settings: Mapping[str, Any]
    reasons: Mapping[str, str]


def recommend(
    measures: CorpusMeasures, choices: Sequence[Choice], config: XTTSConfig
) -> DataRecommendation:
    """Recommend bucketed batching with limits and a batch size for this corpus.

    The planner chooses the number of shapes.
    """
    limits = _recommended_limits(measures, config)
    fitting = measures.frame_counts[_fitting(measures, **limits)]
    batch = recommended_batch_size(fitting, config)
    reason = batch.reason
    in_use, _ = with_recommended_batch_size(measures, config)
    if in_use.data.batch_size != batch.size:
        reason += f"; without these limits train takes {in_use.data.batch_size}"
    left_out = choices[-1].clips_left_out
    reasons = {
        "max_text_length": f"{left_out:,} {plural(left_out, 'clip')} left out"
        if left_out
        else "keeps every clip",
        "batch_size": reason,
    }
    settings: dict[str, Any] = {"batching": "bucketed"}
    if config.data.pad_to_fixed_length:
        settings["pad_to_fixed_length"] = False
    if config.data.shape_count is not None:
        settings["shape_count"] = None
    settings |= {**limits, "batch_size": batch.size}
    return DataRecommendation(settings, reasons)


class BatchSize(NamedTuple):
    size: int
    reason: str


def with_recommended_batch_size(
    clips: Clips | CorpusMeasures, config: XTTSConfig, *, replicas: int = 1
) -> tuple[XTTSConfig, BatchSize]:
    """Return the configuration that `train` uses, and the batch size for the clips that fit it."""
    data = config.data
    fits = _fitting(clips, data.max_text_length, data.max_mel_frames)
    batch = recommended_batch_size(clips.frame_counts[fits], config, replicas=replicas)
    if not config.has_own_batch_size and batch.size != data.batch_size:
        config = config.with_(batch_size=batch.size)
    return config, batch


def recommended_batch_size(
    frame_counts: IntArray, config: XTTSConfig, *, replicas: int = 1
) -> BatchSize:
    """Return the configured size, halved while there are too few clips or too long ones.

    Every command recommends by this alone, and `train` uses it unless a size is given.
    """
    reason = "as configured"
    accumulation = config.training.gradient_accumulation_steps
    # A vocoder is trained on short segments, however long the clips are.
    is_vocoder = config.training.task == "vocoder"
    longest = 0 if is_vocoder else int(frame_counts.max(initial=0))
    size = config.data.batch_size
    while True:
        if frame_counts.size < size * accumulation:
            reason = f"more than the {frame_counts.size} clips there are would repeat some"
        elif longest * size > _MAX_FRAMES_PER_BATCH:
            reason = "more would need much memory for the longest clips"
        else:
            return BatchSize(size, reason)
        # Replicas need equal shares.
        if size < 2 * _MIN_BATCH or size % (2 * replicas):
            return BatchSize(size, reason)
        size //= 2


def limits_that_keep(
    percent: int, token_counts: IntArray, frame_counts: IntArray, config: XTTSConfig
) -> dict[str, int]:
    """Return the lowest limits, of those in force, that together keep this share of the clips.

    Both are at the same quantile of their lengths.
    """
    lengths = {
        "data.max_text_length": (token_counts, TOKEN_MULTIPLE),
        "data.max_mel_frames": (frame_counts, frame_multiple(config)),
    }
    used = {name: lengths[name] for name in _limits_in_force(config)}
    ranks = [np.searchsorted(np.sort(counts), counts, side="right") for counts, _ in used.values()]
    rank = int(np.percentile(np.max(ranks, axis=0), percent, method="inverted_cdf"))
    return {
        name: round_up(int(np.sort(counts)[rank - 1]), multiple)
        for name, (counts, multiple) in used.items()
    }


def _limits_in_force(config: XTTSConfig) -> dict[str, int]:
    """Return the limits by setting, without those that are derived from the data."""
    limits = {
        "data.max_text_length": config.data.max_text_length,
        "data.max_mel_frames": config.data.max_mel_frames,
    }
    return {name: limit for name, limit in limits.items() if limit is not None}


def advice_on_limits(token_counts: IntArray, frame_counts: IntArray, config: XTTSConfig) -> str:
    """Name limits that would keep more clips."""
    choices: list[str] = []
    for percent in _KEPT_PERCENT:
        limits = limits_that_keep(percent, token_counts, frame_counts, config)
        names = [f"{name} = {limit}" for name, limit in limits.items()]
        # The names once are enough.
        shown = map(str, limits.values()) if choices else names
        choices.append(f"{' with '.join(shown)} would keep {percent} %")
    return f"{', '.join(choices)} of the clips"


def advice_for(utterances: Sequence[Utterance], config: XTTSConfig) -> str:
    """Measure the clips, and name limits that would keep more of them."""
    measures = measure_corpus(
        utterances, config, processes=worker_count(config.data.workers, len(utterances))
    )
    return advice_on_limits(measures.token_counts, measures.frame_counts, config)


def resume_option(left_out: int, clips: int) -> str:
    """Return the option that lets a run start although this many clips are left out."""
    return f"--set data.max_rejected_fraction={math.ceil(100 * left_out / clips) / 100:g}"


@dataclass(frozen=True)
class Prediction:
    """Prediction for one batching mode over the first `steps` steps."""

    batching: str
    steps: int
    shapes: int
    """Number of distinct batch shapes."""
    traces: int
    compilations: int
    """By XLA: one per shape and replica."""
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
    """Clips that are left out whatever their length; not among `clips`."""
    max_rejected_fraction: float
    advice_on_limits: str

    @property
    def prediction(self) -> Prediction:
        """Prediction for the configured mode."""
        return next(item for item in self.predictions if item.batching == self.configured)

    @property
    def rows(self) -> int:
        return self.clips + self.unusable

    @property
    def left_out(self) -> int:
        return self.prediction.clips_left_out + self.unusable

    @property
    def would_stop(self) -> bool:
        """Whether training would refuse to start because too many clips are left out."""
        return self.left_out > self.max_rejected_fraction * self.rows

    @property
    def would_compile_again(self) -> bool:
        return self.prediction.compilations_after_warmup > 0


def diagnose(
    clips: Clips, config: XTTSConfig, *, xla: bool, replicas: int = 1, unusable: int = 0
) -> Diagnosis:
    """Predict from clip lengths only; nothing is traced or trained.

    `unusable` clips have no lengths; they count only for whether training would stop.
    """
    data = config.data
    advice = advice_on_limits(clips.token_counts, clips.frame_counts, config)
    if not _fitting(clips, data.max_text_length, data.max_mel_frames).any():
        raise DataError(f"no clip fits {_shown_limits(config)}; {advice}")
    predictions = []
    for mode in BATCHING_MODES:
        try:
            changed = _with_data_settings(config, batching=mode)
            predictions.append(_predict(clips, changed, xla, replicas))
        except MyXTTSError:
            # A failure of another mode is not a problem of this configuration.
            if mode == data.batching_mode:
                raise
    return Diagnosis(
        configured=data.batching_mode,
        xla=xla,
        replicas=replicas,
        clips=clips.token_counts.size,
        predictions=tuple(predictions),
        unusable=unusable,
        max_rejected_fraction=data.max_rejected_fraction,
        advice_on_limits=advice,
    )


def _shown_limits(config: XTTSConfig) -> str:
    return " or ".join(f"{name} = {limit}" for name, limit in _limits_in_force(config).items())


def _predict(clips: Clips, config: XTTSConfig, xla: bool, replicas: int) -> Prediction:
    plan = plan_shapes(
        clips.token_counts,
        clips.frame_counts,
        config,
        replicas=replicas,
        xla=xla,
        labels=clips.labels,
    )
    schedule = Schedule(clips, plan, config)
    steps = min(schedule.planned_steps(config.training), _EXAMINED_STEPS)
    shapes: set[Shape] = set(plan.shapes)
    after_warmup: set[Shape] = set()
    ratios = plan.valid_frame_ratio, plan.valid_work_ratio
    if plan.dynamic:
        batches = [schedule.batch_at(step) for step in range(steps)]
        met = {batch.shape for batch in batches}
        # Warm-up compiles only the shape that fits every clip; all others are compiled later.
        shapes, after_warmup = met | shapes, met - shapes
        ratios = measured_ratios(
            clips, [(batch.clips, batch.shape, batch.shares) for batch in batches], config
        )
    compilations = replicas * len(shapes) if xla else 0
    return Prediction(
        batching=config.data.batching_mode,
        steps=steps,
        shapes=len(shapes),
        traces=1,
        compilations=compilations,
        compilations_after_warmup=replicas * len(after_warmup) if xla else 0,
        compile_seconds=compilations * COMPILE_SECONDS_PER_SHAPE,
        clips_left_out=sum(plan.rejected.values()),
        valid_frame_ratio=ratios[0],
        valid_work_ratio=ratios[1],
    )


def measured_ratios(
    clips: Clips, batches: Iterable[tuple[IntArray, Shape, int]], config: XTTSConfig
) -> tuple[float, float]:
    """Return real over computed frames and work of batches, given as (clips, shape, shares)."""
    frames, work = np.zeros(2), np.zeros(2)
    for members, shape, shares in batches:
        tokens, lengths = clips.token_counts[members], clips.frame_counts[members]
        frames += (lengths.sum(), shape.batch * shape.frames)
        slots = np.array(shape.slots * shares / shape.batch)
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
        sentences.append(
            "Cause: with data.batching: dynamic every batch is as long as its longest clip, which "
            f"gives {predicted.shapes} shapes in {predicted.steps} steps; XLA compiles each one."
        )
        few = "a few" if bucketed is None else bucketed.shapes
        sentences.append(
            f"Change: data.batching: bucketed has {few} shapes, compiled once before the first "
            "step."
        )
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
            f"{predicted.clips_left_out} clips ({share:.1%}) are over {_shown_limits(config)} and "
            f"are left out. {diagnosis.advice_on_limits}."
        )
    if diagnosis.would_stop:
        allowed = f"data.max_rejected_fraction = {config.data.max_rejected_fraction:g}"
        sentences.append(
            f"Training would stop: {diagnosis.left_out} of {diagnosis.rows} clips are unusable, "
            f"more than {allowed} allows. To continue without these clips: "
            f"{resume_option(diagnosis.left_out, diagnosis.rows)}."
        )
    return sentences


def typical_lengths(count: int = 5_000) -> Clips:
    """Draw lengths like those of LJSpeech, read speech: 1.1 to 10.1 s, 6.6 s on average."""
    generator = np.random.default_rng(0)
    seconds = generator.normal(6.9, 2.2, 2 * count)
    return clips_lasting(seconds[(seconds > 1.1) & (seconds < 10.1)][:count], generator)


def clips_lasting(seconds: npt.NDArray[np.float64], generator: np.random.Generator) -> Clips:
    """Draw clips of one speaker: 14 tokens (with a spread of 8 %) and 86 mel frames per second."""
    tokens = seconds * 14 * generator.normal(1, 0.08, seconds.size)
    return Clips(
        tokens.astype(np.int32),
        (seconds * 86).astype(np.int32),
        np.zeros(seconds.size, np.int32),
        np.zeros(seconds.size, np.int32),
    )
