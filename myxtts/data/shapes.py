"""Static shapes for a corpus, and the shape of each clip.

Each clip is padded to one of a few shapes, so the compiled step never sees a new one. The shapes
are those that waste the least work, by exact dynamic programming (`nested_sizes`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.config.config import VOICE_STEP_FRAMES, TrainingConfig, XTTSConfig
from myxtts.data.sampling import (
    ClipLabels,
    IntArray,
    Weights,
    balanced_weights,
    slots_of_share,
    strata_by_row,
)
from myxtts.errors import CheckpointError, ConfigError, DataError, plural
from myxtts.files import read_json, write_file

# Shapes are rounded up to these multiples: finer ones save little padding and vectorize worse.
TOKEN_MULTIPLE = 4
FRAME_MULTIPLE = 8
# More shapes save less padding than they cost in compilations and in filled-up batches.
MAX_SHAPES = 16
# The last batch of each shape is filled up with repeated clips, so a shape needs several batches.
_BATCHES_PER_SHAPE = 4
# Where nothing is compiled per shape and this much real work is not reached, there are more shapes,
# down to one batch for each.
_ENOUGH_REAL_WORK = 0.965
_MAX_UNCOMPILED_SHAPES = 32
# For trading compilations off against padding with XLA: orders of magnitude for compile times that
# users report and for a workstation GPU.
COMPILE_SECONDS_PER_SHAPE = 30.0
_MULTIPLICATIONS_PER_SECOND = 1e12
# A training step does about three times the work of its forward pass.
_STEP_OVER_FORWARD = 3.0
# Batch sizes are multiples of this if the configured one is, so that a run can be resumed with one,
# two or four replicas.
_BATCH_MULTIPLE = 4
_SLOT_MULTIPLE = 8
# The search compares all pairs of candidates; with more of them the grid is made coarser.
_MAX_CANDIDATES = 2_500

# 100 epochs of 24 hours of speech, about 13,000 clips, are 80,000 batches of 16.
DEFAULT_EPOCHS = 100
# A small corpus needs as many steps as a larger one to converge. After the 1,200 steps of the demo,
# an ASR model makes 1.5 times as many errors as on copy synthesis; a good model takes a few times
# as many steps.
MIN_STEPS = 4_000
# A run without a configured length must end even on a large corpus: this is about 16 hours of the
# tiny model at the demo's speed.
MAX_STEPS = 200_000

FloatArray = npt.NDArray[np.float64]
CostOfClip = Callable[[IntArray, IntArray], FloatArray]


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def frame_multiple(config: XTTSConfig) -> int:
    """Return what frames of a shape are multiples of: whole positions too."""
    return math.lcm(FRAME_MULTIPLE, config.model.frames_per_position)


class Shape(NamedTuple):
    batch: int
    """Clips of a step: those of all replicas and of all accumulated batches."""
    tokens: int
    frames: int
    slots: int
    """Capacity, in tokens, for the packed texts of each share of the batch."""

    @property
    def padded(self) -> tuple[int, int, int]:
        """Batch, tokens and frames: the shape of the padded text and mel."""
        return self.batch, self.tokens, self.frames

    def part(self, parts: int) -> Shape:
        """Return the shape of one of `parts` equal parts of the batch."""
        return self._replace(batch=self.batch // parts)


@dataclass(frozen=True)
class ShapePlan:
    shapes: tuple[Shape, ...]
    shape_of_clip: IntArray
    """Index into `shapes` of each clip; -1 for clips over the limits."""
    shares: int
    """Number of parts of every batch: replicas times micro-batches."""
    valid_frame_ratio: float
    valid_work_ratio: float
    dynamic: bool = False
    """Each batch is as long as its longest clip; the one shape is only an upper bound."""
    weights: Weights | None = None
    """Sampling weight of each clip, 1 on average; None means that every epoch has every clip."""
    whole_epochs: bool = True
    """Every epoch has every clip, if clips are not balanced; else it is so on average only."""

    @property
    def rejected(self) -> dict[str, int]:
        left_out = int(np.sum(self.shape_of_clip < 0))
        return {"over the length limits": left_out} if left_out else {}

    def fingerprint(self) -> str:
        """Digest of what decides which clips are in which batch, except settings."""
        digest = hashlib.blake2b(self.shape_of_clip.tobytes(), digest_size=16)
        digest.update(repr([shape.padded for shape in self.shapes]).encode())
        digest.update(repr((self.dynamic, self.whole_epochs)).encode())
        return f"{self.shares} shares {digest.hexdigest()}"

    def part(self, workers: int) -> ShapePlan:
        """Return the plan of one worker in multi-worker training."""
        shapes = tuple(shape.part(workers) for shape in self.shapes)
        return dataclasses.replace(self, shapes=shapes, shares=self.shares // workers)

    def clips_of(self, shape: int) -> IntArray:
        return np.flatnonzero(self.shape_of_clip == shape).astype(np.int32)


def plan_shapes(
    token_counts: IntArray,
    frame_counts: IntArray,
    config: XTTSConfig,
    *,
    replicas: int = 1,
    xla: bool = False,
    labels: ClipLabels | None = None,
) -> ShapePlan:
    """Plan shapes for clips of these lengths in the configured batching mode.

    With XLA every shape costs a compilation, so the planner uses fewer of them. Clips are balanced
    as configured if labels are given.
    """
    data = config.data
    shares = replicas * config.training.gradient_accumulation_steps
    fits = token_counts <= data.max_text_length
    longest = int(frame_counts[fits].max(initial=1))
    most_frames = data.max_mel_frames or round_up(longest, frame_multiple(config))
    fits &= frame_counts <= most_frames
    if not fits.any():
        raise DataError(
            f"no clip fits data.max_text_length = {data.max_text_length} and "
            f"data.max_mel_frames = {data.max_mel_frames or 'that of the longest clip'}; raise them"
        )
    whole_epochs = True
    if data.batching_mode != "bucketed":
        padded = [(config.clips_per_step, data.max_text_length, most_frames)]
    else:
        weights = balanced_weights(labels, fits, data)
        weights = None if weights is None else weights[fits]
        sizes = [
            size._replace(
                tokens=min(size.tokens, data.max_text_length), frames=min(size.frames, most_frames)
            )
            for size in _best_sizes(token_counts[fits], frame_counts[fits], weights, config, xla)
        ]
        # Filling up the last batch of every shape would repeat too many clips.
        whole_epochs = data.shape_count is not None or len(sizes) <= _shapes_with_whole_epochs(
            int(fits.sum()), config
        )
        mean_tokens = float(np.average(token_counts[fits], weights=weights))
        batches = _batch_sizes(sizes, mean_tokens, config, shares, whole_epochs=whole_epochs)
        padded = [
            (batch, size.tokens, size.frames) for size, batch in zip(sizes, batches, strict=True)
        ]
    return assign_shapes(
        token_counts,
        frame_counts,
        padded,
        config,
        shares=shares,
        dynamic=data.batching_mode == "dynamic",
        labels=labels,
        whole_epochs=whole_epochs,
    )


def assign_shapes(
    token_counts: IntArray,
    frame_counts: IntArray,
    padded: Sequence[tuple[int, int, int]],
    config: XTTSConfig,
    *,
    shares: int,
    dynamic: bool = False,
    labels: ClipLabels | None = None,
    whole_epochs: bool = True,
) -> ShapePlan:
    """Assign each clip to the first shape (batch, tokens, frames) it fits, and compute the slots.

    Clips are balanced as configured if labels are given.
    """
    require_equal_shares([batch for batch, _, _ in padded], shares, config)
    shape_of_clip = np.full(len(token_counts), -1, np.int32)
    for index, (_, tokens, frames) in reversed(list(enumerate(padded))):
        shape_of_clip[(token_counts <= tokens) & (frame_counts <= frames)] = index
    used = shape_of_clip >= 0
    weights = balanced_weights(labels, used, config.data)
    if weights is None and not whole_epochs:
        weights = used.astype(np.float64)
    shapes = []
    for index, (batch, tokens, frames) in enumerate(padded):
        clips = np.flatnonzero(shape_of_clip == index).astype(np.int32)
        slots = batch * tokens // shares
        if clips.size:
            strata = strata_by_row(clips, token_counts, batch, weights)
            packed = round_up(slots_of_share(strata, token_counts, shares), _SLOT_MULTIPLE)
            slots = min(packed, slots)
        shapes.append(Shape(batch, tokens, frames, slots))
    ratios = _valid_ratios(
        token_counts, frame_counts, shapes, shape_of_clip, weights, shares, config
    )
    return ShapePlan(
        tuple(shapes),
        shape_of_clip,
        shares,
        *ratios,
        dynamic=dynamic,
        weights=weights,
        whole_epochs=whole_epochs,
    )


def plan_segments(
    frame_counts: IntArray, config: XTTSConfig, *, shares: int, labels: ClipLabels | None = None
) -> ShapePlan:
    """Plan one static shape: a segment of fixed length, cut out of each clip."""
    batch, frames = config.clips_per_step, config.vocoder.frames_per_segment
    require_equal_shares([batch], shares, config)
    used = np.ones(len(frame_counts), bool)
    weights = balanced_weights(labels, used, config.data)
    valid = float(np.average(np.minimum(frame_counts, frames), weights=weights)) / frames
    return ShapePlan(
        (Shape(batch, 0, frames, 0),),
        np.zeros(len(frame_counts), np.int32),
        shares,
        valid_frame_ratio=valid,
        valid_work_ratio=valid,
        weights=weights,
    )


def require_equal_shares(batches: Sequence[int], shares: int, config: XTTSConfig) -> None:
    accumulation = config.training.gradient_accumulation_steps
    for batch in batches:
        if batch % shares:
            raise ConfigError(
                f"data.batch_size: found a batch of {batch // accumulation}, expected a multiple "
                f"of {shares // accumulation}, the number of replicas"
            )


def step_frame_budget(config: XTTSConfig) -> int | None:
    """Return the maximum frames of a step, over all accumulated batches."""
    budget = config.data.frame_budget
    return None if budget is None else budget * config.training.gradient_accumulation_steps


def _best_sizes(
    token_counts: IntArray,
    frame_counts: IntArray,
    weights: Weights | None,
    config: XTTSConfig,
    xla: bool,
) -> list[Size]:
    real_work = real_multiplications(token_counts, frame_counts, frame_counts, config)
    mean_tokens, mean_frames, mean_work = (
        float(np.average(amounts, weights=weights))
        for amounts in (token_counts, frame_counts, real_work)
    )

    epochs = run_length(config.training, token_counts.size / config.clips_per_step).epochs

    def cost_of_clip(tokens: IntArray, frames: IntArray) -> npt.NDArray[np.float64]:
        """Return frames and work of a padded clip, each relative to the average clip.

        The work on packed texts depends on their tokens only, not on the shape.
        """
        work = computed_multiplications(tokens, frames, np.array(mean_tokens), config)
        return frames / mean_frames + work / mean_work

    def training_seconds(sizes: list[Size]) -> float:
        """Estimate the time of a whole run, including compilations."""
        costs = cost_of_clip(*_lengths_of(sizes))
        clips = [size.clips for size in sizes]
        work = epochs * mean_work * np.dot(clips, costs) / 2
        seconds = work * _STEP_OVER_FORWARD / _MULTIPLICATIONS_PER_SECOND
        return float(seconds) + (COMPILE_SECONDS_PER_SHAPE * len(sizes) if xla else 0.0)

    def plans_up_to(most: int) -> list[list[Size]]:
        return nested_sizes(
            token_counts,
            frame_counts,
            cost_of_clip,
            most,
            multiples=(TOKEN_MULTIPLE, frame_multiple(config)),
            weights=weights,
        )

    def real_share(sizes: list[Size]) -> float:
        tokens, frames = _lengths_of(sizes)
        work = computed_multiplications(tokens, frames, np.array(mean_tokens), config)
        return mean_work / float(np.average(work, weights=[size.clips for size in sizes]))

    count = config.data.shape_count
    if count is not None:
        return plans_up_to(count)[-1]
    usual = _shapes_with_whole_epochs(token_counts.size, config)
    best = min(plans_up_to(min(MAX_SHAPES, usual)), key=training_seconds)
    most = min(_MAX_UNCOMPILED_SHAPES, token_counts.size // config.clips_per_step)
    if xla or most <= len(best) or real_share(best) >= _ENOUGH_REAL_WORK:
        return best
    more = plans_up_to(most)[len(best) - 1 :]
    return next((sizes for sizes in more if real_share(sizes) >= _ENOUGH_REAL_WORK), more[-1])


def _shapes_with_whole_epochs(clips: int, config: XTTSConfig) -> int:
    return max(1, clips // (_BATCHES_PER_SHAPE * config.clips_per_step))


def _lengths_of(sizes: list[Size]) -> tuple[IntArray, IntArray]:
    return (
        np.array([size.tokens for size in sizes], np.int32),
        np.array([size.frames for size in sizes], np.int32),
    )


def _batch_sizes(
    sizes: list[Size], mean_tokens: float, config: XTTSConfig, shares: int, *, whole_epochs: bool
) -> list[int]:
    """Return the clips of a step for each size, all of about the configured cost."""
    tokens, frames = _lengths_of(sizes)
    clips = np.array([size.clips for size in sizes])
    slots = tokens * (mean_tokens * clips.sum() / np.dot(clips, tokens))
    work = computed_multiplications(tokens, frames, slots, config)
    budget = config.clips_per_step * float(np.dot(clips, work)) / clips.sum()
    accumulation = config.training.gradient_accumulation_steps
    multiple = accumulation * math.lcm(
        shares // accumulation, math.gcd(config.data.batch_size, _BATCH_MULTIPLE)
    )
    batches = [max(1, round(budget / each / multiple)) * multiple for each in work]
    if not whole_epochs:
        # A shape may have fewer clips than such a batch; none should be in it twice.
        batches = [
            min(batch, max(1, int(size.clips) // multiple) * multiple)
            for batch, size in zip(batches, sizes, strict=True)
        ]
    frame_budget = step_frame_budget(config)
    if frame_budget is None:
        return batches
    most = [frame_budget // size.frames // multiple * multiple for size in sizes]
    if min(most) == 0:
        at_once = multiple // accumulation
        raise ConfigError(
            f"data.frame_budget: found {config.data.frame_budget}, expected at least "
            f"{at_once * max(size.frames for size in sizes)}: {at_once} of the longest clips"
        )
    return [min(batch, limit) for batch, limit in zip(batches, most, strict=True)]


def _valid_ratios(
    token_counts: IntArray,
    frame_counts: IntArray,
    shapes: Sequence[Shape],
    shape_of_clip: IntArray,
    weights: Weights | None,
    shares: int,
    config: XTTSConfig,
) -> tuple[float, float]:
    """Return real over computed mel frames and work, assuming references as long as clips."""
    used = shape_of_clip >= 0
    if not used.any():
        return 1.0, 1.0
    used_weights = np.ones(int(used.sum())) if weights is None else weights[used]
    clips = np.bincount(shape_of_clip[used], used_weights, minlength=len(shapes))
    tokens, frames = (
        np.array([getattr(shape, name) for shape in shapes], np.int32)
        for name in ("tokens", "frames")
    )
    slots = np.array([shape.slots * shares / shape.batch for shape in shapes])
    real = real_multiplications(token_counts[used], frame_counts[used], frame_counts[used], config)
    computed = computed_multiplications(tokens, frames, slots, config)
    return (
        float(np.dot(used_weights, frame_counts[used]) / np.dot(clips, frames)),
        float(np.dot(used_weights, real) / np.dot(clips, computed)),
    )


class Size(NamedTuple):
    tokens: int
    frames: int
    clips: float
    """Number, or total weight, of the clips that fit this size but no smaller one."""


class _Candidates(NamedTuple):
    """Sizes to consider: each of their two lengths occurs in the corpus."""

    tokens: IntArray
    frames: IntArray
    fitting: FloatArray
    """Number, or total weight, of the clips that fit each size."""


def nested_sizes(
    token_counts: IntArray,
    frame_counts: IntArray,
    cost_of_clip: CostOfClip,
    most: int,
    *,
    multiples: tuple[int, int],
    weights: FloatArray | None = None,
) -> list[list[Size]]:
    """Find the cheapest sizes for 1, 2, … `most` shapes, while another shape reduces the cost.

    Shapes are nested: they grow in tokens and frames together, and a clip goes into the first one
    that fits. The clips of a shape are then those that fit it minus those that fit the previous
    one, so the best sequence ending in a shape follows from the best sequences ending in smaller
    ones.

    `cost_of_clip` maps arrays of padded tokens and frames to the cost of a clip; lengths are
    multiples of `multiples`. `weights` are the weights of the clips.
    """
    candidates = _candidates(token_counts, frame_counts, multiples, weights)
    tokens, frames, fitting = candidates
    cost = cost_of_clip(tokens, frames)
    holds = (tokens[:, None] <= tokens) & (frames[:, None] <= frames)
    # least[c]: minimum cost of all clips that fit candidate c, if c is the largest shape so far.
    least = fitting * cost
    # Cost of adding shape c (column) after p (row), without the part that depends on c only.
    step = np.where(holds, -fitting[:, None] * cost, np.inf)
    predecessors = [np.full(least.size, -1)]
    totals = [least[-1]]
    for _ in range(1, most):
        extended = least[:, None] + step
        best = np.argmin(extended, axis=0)
        least = extended[best, np.arange(least.size)] + fitting * cost
        if not least[-1] < totals[-1]:
            break
        predecessors.append(best)
        totals.append(least[-1])
    return [
        _follow_back(predecessors[: count + 1], candidates) for count in range(len(predecessors))
    ]


def _candidates(
    token_counts: IntArray,
    frame_counts: IntArray,
    multiples: tuple[int, int],
    weights: FloatArray | None,
) -> _Candidates:
    token_multiple, frame_multiple = multiples
    while True:
        rows, columns = -(-token_counts // token_multiple), -(-frame_counts // frame_multiple)
        width = int(columns.max()) + 1
        clips = np.bincount(
            rows.astype(np.int64) * width + columns,
            weights,
            minlength=(int(rows.max()) + 1) * width,
        ).reshape(-1, width)
        has_row, has_column = np.cumsum(clips, axis=1) > 0, np.cumsum(clips, axis=0) > 0
        tokens, frames = np.nonzero(has_row & has_column)
        if tokens.size <= _MAX_CANDIDATES:
            break
        token_multiple, frame_multiple = 2 * token_multiple, 2 * frame_multiple
    fitting = clips.cumsum(axis=0).cumsum(axis=1)[tokens, frames].astype(np.float64)
    # In row-major order, so the last candidate fits every clip.
    return _Candidates(
        (tokens * token_multiple).astype(np.int32),
        (frames * frame_multiple).astype(np.int32),
        fitting,
    )


def _follow_back(predecessors: list[npt.NDArray[np.intp]], candidates: _Candidates) -> list[Size]:
    tokens, frames, fitting = candidates
    places = [fitting.size - 1]
    for choices in reversed(predecessors[1:]):
        places.append(int(choices[places[-1]]))
    places.reverse()
    before = [0.0, *fitting[places[:-1]]]
    return [
        Size(int(tokens[place]), int(frames[place]), float(fitting[place] - smaller))
        for place, smaller in zip(places, before, strict=True)
    ]


def real_multiplications(
    tokens: IntArray, frames: IntArray, reference_frames: IntArray, config: XTTSConfig
) -> FloatArray:
    """Estimate the multiplications of a forward pass on real data only, per clip."""
    references = np.minimum(reference_frames, config.model.reference_frames)
    return _multiplications(tokens, frames, tokens.astype(np.float64), references, config)


def computed_multiplications(
    padded_tokens: IntArray, padded_frames: IntArray, slots: FloatArray, config: XTTSConfig
) -> FloatArray:
    """Estimate the multiplications of a forward pass on padded data, per clip.

    `slots` is each clip's share of the slots for packed texts.
    """
    references = config.model.reference_frames
    return _multiplications(padded_tokens, padded_frames, slots, references, config)


def _multiplications(
    tokens: IntArray,
    frames: IntArray,
    packed_tokens: FloatArray,
    reference_frames: IntArray | int,
    config: XTTSConfig,
) -> FloatArray:
    model, n_mels = config.model, config.data.n_mels
    channels = n_mels * model.frames_per_position
    # On packed tokens: attention projections, MLPs, output heads.
    per_token = model.text_width * ((12 * model.text_blocks + 8) * model.text_width + channels)
    # On the padded batch: self-attention, convolutions over tokens, alignment, frame encoder.
    token_count = tokens.astype(np.float64)
    positions = frames / model.frames_per_position
    convolution = model.kernel_positions * model.text_width * (model.text_blocks + 1)
    attention_per_pair = 2 * model.text_width * model.text_blocks
    padded = (
        token_count * convolution
        + token_count**2 * attention_per_pair
        + token_count * positions * channels
        + positions * _per_encoded_position(config)
    )
    # On segments of bounded length: the decoder's segment and the reference. Attention between
    # positions and latents is left out, as it is 1 or 2 % of this.
    segment_frames = np.minimum(frames, model.segment_frames)
    per_position = model.decoder_width * (
        8 * model.decoder_blocks * model.decoder_width
        + 3 * channels
        + (model.frame_width if model.frame_blocks else model.text_width)
    )
    per_step = model.voice_width * (
        8 * model.voice_blocks * model.voice_width + VOICE_STEP_FRAMES * n_mels
    )
    segments = (
        segment_frames / model.frames_per_position * per_position
        + reference_frames / VOICE_STEP_FRAMES * per_step
    )
    return packed_tokens * per_token + padded + segments


def _per_encoded_position(config: XTTSConfig) -> float:
    """Return the work in the frame encoder, whose stages have 1, 1/2, 1/4, 1/2, 1 of the positions.

    Without the convolutions and the attention scores, which are some percent of this.
    """
    model = config.model
    if not model.frame_blocks:
        return 0.0
    width, channels = model.frame_width, config.data.n_mels * model.frames_per_position
    per_block = 8 * width * (1 + 1 / 2 + 1 / 4 + 1 / 2 + 1) + 4 * width / 4
    changes_of_rate = 2 * (2 * width / 2 + 2 * width / 4)
    return width * (
        model.frame_blocks * per_block + changes_of_rate + 2 * channels + model.text_width
    )


@dataclass(frozen=True)
class RunLength:
    steps: int
    epochs: float
    reason: str

    def __str__(self) -> str:
        epochs = f"{self.epochs:,.0f}" if self.epochs >= 10 else f"{self.epochs:.2g}"
        unit = plural(1 if epochs == "1" else 2, "epoch")
        return f"{self.steps:,} {plural(self.steps, 'step')} ({epochs} {unit}); {self.reason}"


def run_length(training: TrainingConfig, batches_per_epoch: float) -> RunLength:
    """Return the length by max_steps, by epochs, or a default for a corpus with so many batches."""
    if training.max_steps is not None:
        steps, reason = training.max_steps, "set by training.max_steps"
        return RunLength(steps, steps / batches_per_epoch, reason)
    epochs = DEFAULT_EPOCHS if training.epochs is None else training.epochs
    steps = round(epochs * batches_per_epoch)
    if training.epochs is not None:
        return RunLength(steps, epochs, "set by training.epochs")
    bound = min(max(steps, MIN_STEPS), MAX_STEPS)
    if bound == steps:
        return RunLength(steps, epochs, "the default for this corpus")
    beyond = (
        f"only {steps:,} steps, below the default minimum"
        if bound == MIN_STEPS
        else f"{steps:,} steps, above the default maximum"
    )
    reason = f"{DEFAULT_EPOCHS} epochs would be {beyond}. Change it with --max-steps."
    return RunLength(bound, bound / batches_per_epoch, reason)


def describe_plan(plan: ShapePlan, frame_counts: IntArray, config: XTTSConfig) -> str:
    """Return a table of shapes: clips, clips at once, fraction of real frames."""
    accumulation = config.training.gradient_accumulation_steps
    if plan.dynamic:
        return "Shapes     dynamic: each batch is as long as its longest clip"
    lines = ["Shapes     tokens  frames   clips   batch   real frames   real work"]
    for index, shape in enumerate(plan.shapes):
        clips = plan.clips_of(index)
        weights = None if plan.weights is None else plan.weights[clips]
        mean = np.average(frame_counts[clips], weights=weights) if clips.size else 0.0
        real = mean / shape.frames
        lines.append(
            f"  {index + 1:>2}      {shape.tokens:>7} {shape.frames:>7} {clips.size:>7} "
            f"{shape.batch // accumulation:>7} {real:>13.1%}"
        )
    used = int(np.sum(plan.shape_of_clip >= 0))
    lines.append(
        f"  all                     {used:>7}         {plan.valid_frame_ratio:>13.1%} "
        f"{plan.valid_work_ratio:>11.1%}"
    )
    return "\n".join(lines)


def describe_segments(plan: ShapePlan, config: XTTSConfig) -> str:
    """Return one line for the one shape."""
    (shape,) = plan.shapes
    at_once = shape.batch // config.training.gradient_accumulation_steps
    clips = plan.clips_of(0).size
    return (
        f"Segments: {shape.frames} frames of each clip, {at_once} {plural(at_once, 'clip')} at "
        f"once, {clips} {plural(clips, 'clip')} in all; {plan.valid_frame_ratio:.1%} real frames"
    )


class SavedShapes(NamedTuple):
    padded: list[tuple[int, int, int]]
    """Batch, tokens and frames of each shape."""
    whole_epochs: bool


def save_plan(plan: ShapePlan, config: XTTSConfig, file: Path) -> None:
    """Save the shapes of a run, so that a resumed run has the same batches."""
    shapes = [
        {**shape._asdict(), "clips": int(plan.clips_of(index).size)}
        for index, shape in enumerate(plan.shapes)
    ]
    content = {
        "settings": _deciding_settings(config),
        "shapes": shapes,
        "whole_epochs": plan.whole_epochs,
        # The padding of dynamic batches is not known in advance.
        "valid_frame_ratio": None if plan.dynamic else plan.valid_frame_ratio,
        "valid_work_ratio": None if plan.dynamic else plan.valid_work_ratio,
        "rejected": plan.rejected,
    }
    write_file(file, json.dumps(content, indent=1))


def load_shapes(file: Path, config: XTTSConfig) -> SavedShapes | None:
    """Read saved shapes; None if settings that affect the shapes have changed."""
    try:
        content = read_json(file, ("settings", "shapes", "whole_epochs"))
        shapes = [(shape["batch"], shape["tokens"], shape["frames"]) for shape in content["shapes"]]
        if not shapes:
            raise ValueError("no shapes")
        same = content["settings"] == _deciding_settings(config)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{file}: not a valid shape plan ({error}); delete it to plan the shapes again"
        ) from error
    return SavedShapes(shapes, content["whole_epochs"]) if same else None


def _deciding_settings(config: XTTSConfig) -> dict[str, Any]:
    """Return the settings that determine the shapes, without devices and the length of the run."""
    data = config.data
    return {
        "batching": data.batching_mode,
        "batch_size": config.clips_per_step,
        "shape_count": data.shape_count,
        "frame_budget": step_frame_budget(config),
        "max_text_length": data.max_text_length,
        "max_mel_frames": data.max_mel_frames,
        "speaker_balance": data.speaker_balance,
        "language_balance": data.language_balance,
        "gradient_accumulation_steps": config.training.gradient_accumulation_steps,
    }
