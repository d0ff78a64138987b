"""How often a configuration would make the training step compile, and how other ways would do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from myxtts.config.config import BATCHING_MODES, DEFAULT_EPOCHS, XTTSConfig
from myxtts.data.schedule import Clips, PlannedBatch, Schedule
from myxtts.data.shapes import COMPILE_SECONDS_PER_SHAPE, plan_shapes
from myxtts.errors import DataError
from myxtts.models.work import computed_multiplications, real_multiplications

# Looking at the batches of so many steps tells enough about all of them.
MOST_STEPS = 2_000


@dataclass(frozen=True)
class Prediction:
    """What one way of batching would do in the first `steps` steps."""

    batching: str
    steps: int
    shapes: int
    """Different shapes among the batches."""
    traces: int
    compilations: int
    """By XLA, all of them."""
    compilations_after_warmup: int
    compile_seconds: float
    """Estimated, at COMPILE_SECONDS_PER_SHAPE each."""
    clips_left_out: int
    valid_frame_ratio: float
    valid_work_ratio: float


@dataclass(frozen=True)
class Diagnosis:
    configured: str
    xla: bool | None
    """As configured; None: on GPUs and not on CPUs."""
    clips: int
    predictions: tuple[Prediction, ...]
    """One for each way of batching."""

    @property
    def prediction(self) -> Prediction:
        """For the configured way."""
        return next(item for item in self.predictions if item.batching == self.configured)

    @property
    def would_compile_again(self) -> bool:
        return self.prediction.compilations_after_warmup > 0


def diagnose(clips: Clips, config: XTTSConfig) -> Diagnosis:
    """Predicts from the clips' lengths alone; nothing is traced or trained."""
    # Where the device decides about XLA, the answer is for a GPU, where it is on.
    xla = config.training.xla is not False
    predictions = tuple(
        _predict(clips, _with_batching(config, mode), xla) for mode in BATCHING_MODES
    )
    return Diagnosis(
        config.data.batching_mode, config.training.xla, clips.token_counts.size, predictions
    )


def advise(diagnosis: Diagnosis, config: XTTSConfig) -> list[str]:
    """The cause of compilations, what to change, and what else stands out."""
    predicted = diagnosis.prediction
    by_mode = {item.batching: item for item in diagnosis.predictions}
    sentences = []
    if diagnosis.would_compile_again:
        sentences.append(
            "Cause: with batching: dynamic every batch is as long as its longest clip, which "
            f"makes {predicted.shapes} shapes in {predicted.steps} steps, and XLA compiles each"
            f"{'' if diagnosis.xla else ' (on a GPU, where it is on by default)'}."
        )
        sentences.append(
            f"Change: data.batching: bucketed has {by_mode['bucketed'].shapes} shapes, compiled "
            "once before the first step."
        )
    elif predicted.batching == "dynamic":
        sentences.append(
            "XLA is off, so one trace serves every length; with XLA it would compile for each of "
            f"{predicted.shapes} shapes. Change: data.batching: bucketed."
        )
    elif predicted.batching == "fixed":
        gain = by_mode["bucketed"].valid_work_ratio - predicted.valid_work_ratio
        if gain > 0.02:
            sentences.append(
                f"{gain:.0%} more of the arithmetic would be on real tokens and frames with "
                "data.batching: bucketed (and without pad_to_fixed_length)."
            )
    if predicted.clips_left_out:
        share = predicted.clips_left_out / diagnosis.clips
        sentences.append(
            f"{predicted.clips_left_out} clips ({share:.1%}) are over data.max_text_length = "
            f"{config.data.max_text_length} or data.max_mel_frames = {config.data.max_mel_frames} "
            "and are left out; myxtts stats recommends limits."
        )
    return sentences


def typical_lengths(count: int = 5_000) -> Clips:
    """Lengths drawn to match a read-speech corpus such as LJSpeech: 1.1 to 10.1 s, 6.6 on average.

    14 tokens and 86 mel frames a second, the tokens spread by 8 %.
    """
    generator = np.random.default_rng(0)
    seconds = generator.normal(6.9, 2.2, 2 * count)
    seconds = seconds[(seconds > 1.1) & (seconds < 10.1)][:count]
    tokens = seconds * 14 * generator.normal(1, 0.08, seconds.size)
    return Clips(
        tokens.astype(np.int32),
        (seconds * 86).astype(np.int32),
        np.zeros(seconds.size, np.int32),
    )


def _with_batching(config: XTTSConfig, mode: str) -> XTTSConfig:
    settings = config.as_dict()
    settings["data"] |= {"batching": mode, "pad_to_fixed_length": False}
    return XTTSConfig(**settings)


def _predict(clips: Clips, config: XTTSConfig, xla: bool) -> Prediction:
    try:
        plan = plan_shapes(clips.token_counts, clips.frame_counts, config, xla=xla)
    except DataError as error:
        raise DataError(f"{error}; myxtts stats recommends limits") from error
    schedule = Schedule(clips, plan, config)
    steps = min(_planned_steps(schedule, config), MOST_STEPS)
    if plan.dynamic:
        batches = [schedule.batch_at(step) for step in range(steps)]
        shapes = {batch.shape for batch in batches}
        ratios = _measured_ratios(clips, batches, config)
    else:
        shapes = set(plan.shapes)
        ratios = plan.valid_frame_ratio, plan.valid_work_ratio
    compilations = len(shapes) if xla else 0
    return Prediction(
        batching=config.data.batching_mode,
        steps=steps,
        shapes=len(shapes),
        traces=1,
        compilations=compilations,
        # Warm-up compiles the declared shapes; dynamic batching declares only the largest.
        compilations_after_warmup=compilations if plan.dynamic else 0,
        compile_seconds=compilations * COMPILE_SECONDS_PER_SHAPE,
        clips_left_out=sum(plan.rejected.values()),
        valid_frame_ratio=ratios[0],
        valid_work_ratio=ratios[1],
    )


def _planned_steps(schedule: Schedule, config: XTTSConfig) -> int:
    training = config.training
    if training.max_steps is not None:
        return training.max_steps
    return (training.epochs or DEFAULT_EPOCHS) * schedule.batches_per_epoch


def _measured_ratios(
    clips: Clips, batches: list[PlannedBatch], config: XTTSConfig
) -> tuple[float, float]:
    frames, work = np.zeros(2), np.zeros(2)
    for batch in batches:
        tokens, lengths = clips.token_counts[batch.clips], clips.frame_counts[batch.clips]
        shape = batch.shape
        frames += (lengths.sum(), shape.batch * shape.frames)
        slots = np.array(shape.slots * batch.shares / shape.batch)
        computed = computed_multiplications(
            np.array(shape.tokens), np.array(shape.frames), slots, config
        )
        real = real_multiplications(tokens, lengths, lengths, config)
        work += (real.sum(), shape.batch * float(computed))
    return float(frames[0] / frames[1]), float(work[0] / work[1])
