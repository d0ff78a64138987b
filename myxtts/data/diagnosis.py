"""Predicts compilations of the training step, for each batching mode."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from myxtts.config.config import BATCHING_MODES, XTTSConfig
from myxtts.data.lengths import IntArray
from myxtts.data.limits import advice_on_limits, go_on_with, limits_in_force
from myxtts.data.recommendation import with_data_settings
from myxtts.data.schedule import Clips, Schedule
from myxtts.data.shapes import COMPILE_SECONDS_PER_SHAPE, Shape, plan_shapes
from myxtts.data.work import computed_multiplications, real_multiplications
from myxtts.errors import DataError, MyXTTSError

# Number of steps to examine; the rest behave the same.
MOST_STEPS = 2_000


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
        """For the configured mode."""
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
    """Predicts from clip lengths only; nothing is traced or trained.

    `unusable` clips have no lengths; they count only for whether training would stop.
    """
    advice = advice_on_limits(clips.token_counts, clips.frame_counts, config)
    if not _fitting(clips, config).any():
        raise DataError(f"no clip fits {_shown_limits(config)}; {advice}")
    configured = config.data.batching_mode
    predictions = []
    for mode in BATCHING_MODES:
        try:
            changed = with_data_settings(config, batching=mode)
            predictions.append(_predict(clips, changed, xla, replicas))
        except MyXTTSError:
            # A failure of another mode is not a problem of this configuration.
            if mode == configured:
                raise
    return Diagnosis(
        configured=configured,
        xla=xla,
        replicas=replicas,
        clips=clips.token_counts.size,
        predictions=tuple(predictions),
        unusable=unusable,
        max_rejected_fraction=config.data.max_rejected_fraction,
        advice_on_limits=advice,
    )


def _fitting(clips: Clips, config: XTTSConfig) -> npt.NDArray[np.bool_]:
    fits: npt.NDArray[np.bool_] = clips.token_counts <= config.data.max_text_length
    if config.data.max_mel_frames is not None:
        fits &= clips.frame_counts <= config.data.max_mel_frames
    return fits


def _shown_limits(config: XTTSConfig) -> str:
    return " or ".join(f"{name} = {limit}" for name, limit in limits_in_force(config).items())


def advise(diagnosis: Diagnosis, config: XTTSConfig) -> list[str]:
    """Cause of the compilations, what to change, and other remarks."""
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
            f"{go_on_with(diagnosis.left_out, diagnosis.rows)}."
        )
    return sentences


def typical_lengths(count: int = 5_000) -> Clips:
    """Random lengths like those of LJSpeech, read speech: 1.1 to 10.1 s, 6.6 s on average."""
    generator = np.random.default_rng(0)
    seconds = generator.normal(6.9, 2.2, 2 * count)
    return clips_lasting(seconds[(seconds > 1.1) & (seconds < 10.1)][:count], generator)


def clips_lasting(seconds: npt.NDArray[np.float64], generator: np.random.Generator) -> Clips:
    """Clips of one speaker: 14 tokens (with a spread of 8 %) and 86 mel frames per second."""
    tokens = seconds * 14 * generator.normal(1, 0.08, seconds.size)
    return Clips(
        tokens.astype(np.int32),
        (seconds * 86).astype(np.int32),
        np.zeros(seconds.size, np.int32),
        np.zeros(seconds.size, np.int32),
    )


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
    steps = min(schedule.planned_steps(config.training), MOST_STEPS)
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
    """Real over computed frames and work of batches, given as (clips, shape, shares)."""
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
