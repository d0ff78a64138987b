"""Static shapes for bucketed training, and the shape of each clip.

Each clip is padded to one of a few shapes, so the compiled step never sees a new one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.config.config import XTTSConfig
from myxtts.data.balance import ClipLabels, Weights, balanced_weights
from myxtts.data.lengths import FRAME_MULTIPLE, TOKEN_MULTIPLE, IntArray, round_up
from myxtts.data.run_length import run_length
from myxtts.data.sampling import slots_of_share, strata_by_row
from myxtts.data.shape_search import Size, nested_sizes
from myxtts.data.work import (
    computed_multiplications,
    real_multiplications,
)
from myxtts.errors import ConfigError, DataError

# More shapes save less padding than they cost in compilations and in filled-up batches.
MOST_SHAPES = 16
# The last batch of each shape is filled up with repeated clips, so a shape needs several batches.
_BATCHES_PER_SHAPE = 4
# Where nothing is compiled per shape and this much real work is not reached, there are more shapes,
# down to one batch for each.
_ENOUGH_REAL_WORK = 0.965
_MOST_UNCOMPILED_SHAPES = 32
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
        """Shape of one of `parts` equal parts of the batch."""
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
        """Of what decides which clips are in which batch; the rest follows from the settings."""
        digest = hashlib.blake2b(self.shape_of_clip.tobytes(), digest_size=16)
        digest.update(repr([shape.padded for shape in self.shapes]).encode())
        digest.update(repr((self.dynamic, self.whole_epochs)).encode())
        return f"{self.shares} shares {digest.hexdigest()}"

    def part(self, workers: int) -> ShapePlan:
        """The plan of one worker in multi-worker training."""
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
    """Shapes for clips of these lengths in the configured batching mode.

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
    """Assigns each clip to the first shape (batch, tokens, frames) it fits, and computes the slots.

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
        slots = _slots(clips, token_counts, weights, batch, shares, batch * tokens // shares)
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


def step_frame_budget(config: XTTSConfig) -> int | None:
    """Most frames in a step, of all batches whose gradients are accumulated."""
    budget = config.data.frame_budget
    return None if budget is None else budget * config.training.gradient_accumulation_steps


def frame_multiple(config: XTTSConfig) -> int:
    """Frames of a shape are multiples of this, and so of whole positions."""
    return math.lcm(FRAME_MULTIPLE, config.model.frames_per_position)


def _slots(
    clips: IntArray,
    token_counts: IntArray,
    weights: Weights | None,
    batch: int,
    shares: int,
    most: int,
) -> int:
    if clips.size == 0:
        return most
    strata = strata_by_row(clips, token_counts, batch, weights)
    return min(round_up(slots_of_share(strata, token_counts, shares), _SLOT_MULTIPLE), most)


def require_equal_shares(batches: Sequence[int], shares: int, config: XTTSConfig) -> None:
    accumulation = config.training.gradient_accumulation_steps
    for batch in batches:
        if batch % shares:
            raise ConfigError(
                f"data.batch_size: found a batch of {batch // accumulation}, expected a multiple "
                f"of {shares // accumulation}, the number of replicas"
            )


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
        """Frames and work of a padded clip, each relative to the average clip.

        The work on packed texts depends on their tokens only, not on the shape.
        """
        work = computed_multiplications(tokens, frames, np.array(mean_tokens), config)
        return frames / mean_frames + work / mean_work

    def training_seconds(sizes: list[Size]) -> float:
        """Estimate for a whole run, including compilations."""
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
    best = min(plans_up_to(min(MOST_SHAPES, usual)), key=training_seconds)
    most = min(_MOST_UNCOMPILED_SHAPES, token_counts.size // config.clips_per_step)
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
    """Clips of a step, for each size: all cost about as much as the configured number of clips."""
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
    """Real over computed mel frames and work, assuming references as long as clips."""
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


def describe_plan(plan: ShapePlan, frame_counts: IntArray, config: XTTSConfig) -> str:
    """A table of shapes: clips, clips at once, fraction of real frames."""
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
