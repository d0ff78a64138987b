"""Static shapes for a corpus, and the shape of each clip.

Each clip is padded to one of a few shapes, so the compiled step never sees a new one. The shapes
are those that waste the least work, by exact dynamic programming (`nested_sizes`).

The clips of a shape are sorted by text length and cut into as many strata as a batch has rows. Each
row of a batch is drawn from its own stratum. So the token count of a batch, and of each of its
shares, has a bound close to its mean. That bound is the number of slots that texts are packed into.

With balancing, a group of `count` clips is sampled in proportion to count ** (1 - balance): 0
samples clips uniformly, 1 samples groups uniformly. Strata then have equal weight instead of equal
size.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.config.config import VOICE_STEP_FRAMES, TrainingConfig, XTTSConfig
from myxtts.errors import CheckpointError, ConfigError, DataError, plural
from myxtts.files import read_json, write_file

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
CostOfClip = Callable[[IntArray, IntArray], FloatArray]

# Shapes are rounded up to these multiples: finer ones save little padding and vectorize worse.
TOKEN_MULTIPLE = 4
FRAME_MULTIPLE = 8
# More shapes would cost more in compilations and partial batches than they save in padding.
MAX_SHAPES = 16
# The last batch of each shape is filled up with repeated clips, so a shape needs several batches.
_BATCHES_PER_SHAPE = 4
# Without compilation per shape, shapes are added until this fraction of real work is reached, down
# to one batch per shape.
_ENOUGH_REAL_WORK = 0.965
_MAX_UNCOMPILED_SHAPES = 32
# Estimates for trading XLA compilations off against padding: compile times that users report, and
# the speed of a workstation GPU.
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
# A clip this close to the edge of a stratum counts for both sides. Rounding then never draws a clip
# from a stratum it was not counted in.
_EDGE = 1e-9

_MIN_RECOMMENDED_BATCH = 4
# Limits the memory of the largest batch: 16 clips of 24 seconds at the default hop.
_MAX_FRAMES_PER_BATCH = 32_768

# 100 epochs of 24 hours of speech, about 13,000 clips, are 80,000 batches of 16.
DEFAULT_EPOCHS = 100
# A small corpus needs as many steps as a larger one to converge. After the 1,200 steps of the demo,
# an ASR model makes 1.5 times as many errors as on copy synthesis; a good model takes a few times
# as many steps.
MIN_STEPS = 4_000
# A run without a configured length must end even on a large corpus: this is about 16 hours of the
# tiny model at the demo's speed.
MAX_STEPS = 200_000


class Clips(NamedTuple):
    """Lengths and labels of clips."""

    token_counts: IntArray
    frame_counts: IntArray
    speakers: IntArray
    """Speaker number of each clip."""
    languages: IntArray
    """Language number of each clip."""

    def fitting(self, max_tokens: int, max_frames: int | None) -> BoolArray:
        fits: BoolArray = self.token_counts <= max_tokens
        return fits if max_frames is None else fits & (self.frame_counts <= max_frames)


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
    weights: FloatArray | None = None
    """Sampling weight of each clip, 1 on average; None means that every epoch has every clip."""
    whole_epochs: bool = True
    """Whether every epoch has every clip, if clips are not balanced."""

    @property
    def rejected(self) -> dict[str, int]:
        left_out = int(np.sum(self.shape_of_clip < 0))
        return {"over the length limits": left_out} if left_out else {}

    def fingerprint(self) -> str:
        """Return a digest of everything except settings that determines the batches."""
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


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def frame_multiple(config: XTTSConfig) -> int:
    """Return the multiple that the frames of a shape are rounded up to: whole positions too."""
    return math.lcm(FRAME_MULTIPLE, config.model.frames_per_position)


def plan_shapes(
    clips: Clips, config: XTTSConfig, *, replicas: int = 1, xla: bool = False
) -> ShapePlan:
    """Plan shapes for clips of these lengths in the configured batching mode.

    With XLA every shape costs a compilation, so the planner uses fewer of them.
    """
    data = config.data
    shares = replicas * config.training.gradient_accumulation_steps
    fits = clips.fitting(data.max_text_length, None)
    longest = int(clips.frame_counts[fits].max(initial=1))
    max_frames = data.max_mel_frames or round_up(longest, frame_multiple(config))
    fits = clips.fitting(data.max_text_length, max_frames)
    if not fits.any():
        raise DataError(
            f"no clip fits data.max_text_length = {data.max_text_length} and "
            f"data.max_mel_frames = {data.max_mel_frames or 'that of the longest clip'}; raise them"
        )
    whole_epochs = True
    padded = [(config.clips_per_step, data.max_text_length, max_frames)]
    if data.batching_mode == "bucketed":
        weights = balanced_weights(clips, fits, config)
        weights = None if weights is None else weights[fits]
        tokens, frames = clips.token_counts[fits], clips.frame_counts[fits]
        sizes = [
            size._replace(
                tokens=min(size.tokens, data.max_text_length), frames=min(size.frames, max_frames)
            )
            for size in _best_sizes(tokens, frames, weights, config, xla)
        ]
        # Filling up the last batch of every shape would repeat too many clips.
        whole_epochs = data.shape_count is not None or len(sizes) <= _shapes_with_whole_epochs(
            int(fits.sum()), config
        )
        mean_tokens = float(np.average(tokens, weights=weights))
        batches = _batch_sizes(sizes, mean_tokens, config, shares, whole_epochs=whole_epochs)
        padded = [
            (batch, size.tokens, size.frames) for size, batch in zip(sizes, batches, strict=True)
        ]
    return assign_shapes(clips, padded, config, shares=shares, whole_epochs=whole_epochs)


def assign_shapes(
    clips: Clips,
    padded: Sequence[tuple[int, int, int]],
    config: XTTSConfig,
    *,
    shares: int,
    balanced: bool = True,
    whole_epochs: bool = True,
) -> ShapePlan:
    """Assign each clip to the first shape (batch, tokens, frames) it fits, and compute the slots.

    `balanced` applies data.speaker_balance and data.language_balance.
    """
    _require_equal_shares([batch for batch, _, _ in padded], shares, config)
    shape_of_clip = np.full(len(clips.token_counts), -1, np.int32)
    for index, (_, tokens, frames) in reversed(list(enumerate(padded))):
        shape_of_clip[clips.fitting(tokens, frames)] = index
    used = shape_of_clip >= 0
    weights = balanced_weights(clips, used, config) if balanced else None
    if weights is None and not whole_epochs:
        weights = used.astype(np.float64)
    shapes = []
    for index, (batch, tokens, frames) in enumerate(padded):
        members = np.flatnonzero(shape_of_clip == index).astype(np.int32)
        slots = batch * tokens // shares
        if members.size:
            strata = strata_by_row(members, clips.token_counts, batch, weights)
            packed = round_up(slots_of_share(strata, clips.token_counts, shares), _SLOT_MULTIPLE)
            slots = min(packed, slots)
        shapes.append(Shape(batch, tokens, frames, slots))
    frame_ratio = work_ratio = 1.0
    if used.any():
        used_weights = np.ones(int(used.sum())) if weights is None else weights[used]
        counts = np.bincount(shape_of_clip[used], used_weights, minlength=len(shapes))
        tokens_of = np.array([shape.tokens for shape in shapes], np.int32)
        frames_of = np.array([shape.frames for shape in shapes], np.int32)
        slots_of = np.array([shape.slots * shares / shape.batch for shape in shapes])
        lengths = clips.token_counts[used], clips.frame_counts[used]
        # Assume that references are as long as clips.
        real = real_multiplications(*lengths, lengths[1], config)
        computed = computed_multiplications(tokens_of, frames_of, slots_of, config)
        frame_ratio = float(np.dot(used_weights, lengths[1]) / np.dot(counts, frames_of))
        work_ratio = float(np.dot(used_weights, real) / np.dot(counts, computed))
    return ShapePlan(
        tuple(shapes),
        shape_of_clip,
        shares,
        frame_ratio,
        work_ratio,
        dynamic=config.data.batching_mode == "dynamic",
        weights=weights,
        whole_epochs=whole_epochs,
    )


def plan_segments(
    clips: Clips, config: XTTSConfig, *, shares: int, balanced: bool = True
) -> ShapePlan:
    """Plan one static shape: a segment of fixed length, cut out of each clip."""
    batch, frames = config.clips_per_step, config.vocoder.frames_per_segment
    _require_equal_shares([batch], shares, config)
    count = len(clips.frame_counts)
    weights = balanced_weights(clips, np.ones(count, bool), config) if balanced else None
    valid = float(np.average(np.minimum(clips.frame_counts, frames), weights=weights)) / frames
    return ShapePlan(
        (Shape(batch, 0, frames, 0),),
        np.zeros(count, np.int32),
        shares,
        valid_frame_ratio=valid,
        valid_work_ratio=valid,
        weights=weights,
    )


def _require_equal_shares(batches: Sequence[int], shares: int, config: XTTSConfig) -> None:
    accumulation = config.training.gradient_accumulation_steps
    for batch in batches:
        if batch % shares:
            raise ConfigError(
                f"data.batch_size: found a batch of {batch // accumulation}, expected a multiple "
                f"of {shares // accumulation}, the number of replicas"
            )


def balanced_weights(clips: Clips, used: BoolArray, config: XTTSConfig) -> FloatArray | None:
    """Return a weight per clip, 1 on average over the used clips, or None if all are equal.

    Languages are balanced after speakers: with both balances at 1, every language is sampled
    equally often, and so is every speaker within a language.
    """
    if not used.any():
        return None
    weights = np.ones(int(used.sum()))
    for groups, balance in (
        (clips.speakers[used], config.data.speaker_balance),
        (clips.languages[used], config.data.language_balance),
    ):
        if balance:
            totals = np.bincount(groups, weights)
            weights *= (np.where(totals > 0, totals, 1.0) ** -balance)[groups]
    if np.allclose(weights, weights[:1], rtol=1e-9, atol=0):
        return None
    everywhere = np.zeros(used.size)
    everywhere[used] = weights / weights.mean()
    return everywhere


def by_text_length(clips: IntArray, token_counts: IntArray) -> IntArray:
    return clips[np.argsort(token_counts[clips], kind="stable")]


def strata_by_row(
    clips: IntArray, token_counts: IntArray, batch: int, weights: FloatArray | None = None
) -> list[IntArray]:
    """Return, for each row of a batch, the clips it is drawn from; every clip is in a stratum.

    Strata have equal size, or equal weight with weights. With fewer clips than rows some clips are
    in several strata, and with weights so are clips on the edge between two.
    """
    ordered = by_text_length(clips, token_counts)
    if weights is None:
        edges = np.arange(batch + 1) * clips.size // batch
        strata = [ordered[start : max(end, start + 1)] for start, end in itertools.pairwise(edges)]
    else:
        reached = cumulative_share(weights[ordered])
        borders = np.arange(batch + 1) / batch
        starts = np.searchsorted(reached, borders[:-1] - _EDGE, side="right")
        lasts = np.searchsorted(reached, borders[1:] + _EDGE)
        strata = [ordered[start : last + 1] for start, last in zip(starts, lasts, strict=True)]
    return [strata[row] for row in balanced_order(batch)]


def cumulative_share(weights: FloatArray) -> FloatArray:
    """Return the cumulative weight as a fraction of the total."""
    sums = np.cumsum(weights)
    return sums / sums[-1]


def balanced_order(count: int) -> list[int]:
    """Return 0 to count - 1, ordered so that halves have nearly the same sum, recursively.

    Replicas get equal parts of a batch in this order. So its rows and their order do not depend on
    the number of replicas.
    """

    def halved(places: list[int]) -> list[int]:
        if len(places) < 3:
            return places
        # Out of every four, put the first and the last into one half, the middle two into the
        # other.
        first = [place for index, place in enumerate(places) if index % 4 in (0, 3)]
        second = [place for index, place in enumerate(places) if index % 4 in (1, 2)]
        while len(first) > len(places) // 2:
            second.append(first.pop())
        return halved(first) + halved(sorted(second))

    return halved(list(range(count)))


def slots_of_share(strata: list[IntArray], token_counts: IntArray, shares: int) -> int:
    """Return the maximum number of tokens in a share over all draws from the strata."""
    longest = np.array([token_counts[stratum].max() for stratum in strata])
    return int(longest.reshape(shares, -1).sum(axis=1).max())


class Size(NamedTuple):
    tokens: int
    frames: int
    clips: float
    """Number, or total weight, of the clips that fit this size but no smaller one."""


def _best_sizes(
    token_counts: IntArray,
    frame_counts: IntArray,
    weights: FloatArray | None,
    config: XTTSConfig,
    xla: bool,
) -> list[Size]:
    """Choose how many shapes there are, unless data.shape_count is set, and how large."""
    real_work = real_multiplications(token_counts, frame_counts, frame_counts, config)
    mean_tokens, mean_frames, mean_work = (
        float(np.average(amounts, weights=weights))
        for amounts in (token_counts, frame_counts, real_work)
    )
    epochs = run_length(config.training, token_counts.size / config.clips_per_step).epochs

    def work_of(tokens: IntArray, frames: IntArray) -> FloatArray:
        # The work on packed texts depends on their tokens only, not on the shape.
        return computed_multiplications(tokens, frames, np.array(mean_tokens), config)

    def cost_of_clip(tokens: IntArray, frames: IntArray) -> FloatArray:
        """Return frames and work of a padded clip, each relative to the average clip."""
        return frames / mean_frames + work_of(tokens, frames) / mean_work

    def training_seconds(sizes: list[Size]) -> float:
        """Estimate the time of a whole run, including compilations."""
        tokens, frames, clips = _columns(sizes)
        work = epochs * mean_work * np.dot(clips, cost_of_clip(tokens, frames)) / 2
        seconds = work * _STEP_OVER_FORWARD / _MULTIPLICATIONS_PER_SECOND
        return float(seconds) + (COMPILE_SECONDS_PER_SHAPE * len(sizes) if xla else 0.0)

    def real_share(sizes: list[Size]) -> float:
        tokens, frames, clips = _columns(sizes)
        return mean_work / float(np.average(work_of(tokens, frames), weights=clips))

    multiples = TOKEN_MULTIPLE, frame_multiple(config)
    plans = nested_sizes(
        token_counts, frame_counts, cost_of_clip, multiples=multiples, weights=weights
    )
    if config.data.shape_count is not None:
        return list(itertools.islice(plans, config.data.shape_count))[-1]
    usual = min(MAX_SHAPES, _shapes_with_whole_epochs(token_counts.size, config))
    few = list(itertools.islice(plans, usual))
    best = min(few, key=training_seconds)
    max_shapes = min(_MAX_UNCOMPILED_SHAPES, token_counts.size // config.clips_per_step)
    if xla or max_shapes <= len(best) or real_share(best) >= _ENOUGH_REAL_WORK:
        return best
    more = [*few, *itertools.islice(plans, max(0, max_shapes - len(few)))][:max_shapes]
    enough = (sizes for sizes in more[len(best) - 1 :] if real_share(sizes) >= _ENOUGH_REAL_WORK)
    return next(enough, more[-1])


def _shapes_with_whole_epochs(clips: int, config: XTTSConfig) -> int:
    return max(1, clips // (_BATCHES_PER_SHAPE * config.clips_per_step))


def _columns(sizes: list[Size]) -> tuple[IntArray, IntArray, FloatArray]:
    tokens, frames, clips = zip(*sizes, strict=True)
    return np.array(tokens, np.int32), np.array(frames, np.int32), np.array(clips)


def _batch_sizes(
    sizes: list[Size], mean_tokens: float, config: XTTSConfig, shares: int, *, whole_epochs: bool
) -> list[int]:
    """Return the clips of a step for each size, all of about the configured cost."""
    tokens, frames, clips = _columns(sizes)
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
    return batches


def nested_sizes(
    token_counts: IntArray,
    frame_counts: IntArray,
    cost_of_clip: CostOfClip,
    *,
    multiples: tuple[int, int],
    weights: FloatArray | None = None,
) -> Iterator[list[Size]]:
    """Yield the cheapest sizes for 1, 2, 3, … shapes, while another shape reduces the cost.

    Shapes are nested: they grow in tokens and frames together, and a clip goes into the first one
    that fits. The clips of a shape are those that fit it but not the previous one. So the best
    sequence ending in a shape follows from the best sequences ending in smaller ones.

    `cost_of_clip` maps arrays of padded tokens and frames to the cost of a clip; lengths are
    multiples of `multiples`. `weights` are the weights of the clips.
    """
    tokens, frames, fitting = _candidates(token_counts, frame_counts, multiples, weights)
    cost = cost_of_clip(tokens, frames)
    holds = (tokens[:, None] <= tokens) & (frames[:, None] <= frames)
    # lowest[c]: minimum cost of all clips that fit candidate c, if c is the largest shape so far.
    lowest = fitting * cost
    # Cost of adding shape c (column) after p (row), without the part that depends on c only.
    step = np.where(holds, -fitting[:, None] * cost, np.inf)
    predecessors: list[npt.NDArray[np.intp]] = []
    while True:
        places = [fitting.size - 1]
        for choices in reversed(predecessors):
            places.insert(0, int(choices[places[0]]))
        smaller = [0.0, *fitting[places[:-1]]]
        yield [
            Size(int(tokens[place]), int(frames[place]), float(fitting[place] - before))
            for place, before in zip(places, smaller, strict=True)
        ]
        extended = lowest[:, None] + step
        best = np.argmin(extended, axis=0)
        total = lowest[-1]
        lowest = extended[best, np.arange(lowest.size)] + fitting * cost
        if not lowest[-1] < total:
            return
        predecessors.append(best)


def _candidates(
    token_counts: IntArray,
    frame_counts: IntArray,
    multiples: tuple[int, int],
    weights: FloatArray | None,
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return tokens and frames of sizes to consider, and the total weight of clips that fit each.

    Each of their two lengths occurs in the corpus, and the last one fits every clip.
    """
    token_step, frame_step = multiples
    while True:
        rows, columns = -(-token_counts // token_step), -(-frame_counts // frame_step)
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
        token_step, frame_step = 2 * token_step, 2 * frame_step
    fitting = clips.cumsum(axis=0).cumsum(axis=1)[tokens, frames].astype(np.float64)
    return (tokens * token_step).astype(np.int32), (frames * frame_step).astype(np.int32), fitting


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
    per_encoded_position = 0.0
    if model.frame_blocks:
        # Its stages have 1, 1/2, 1/4, 1/2 and 1 of the positions. Convolutions and attention
        # scores are left out, as they are some percent of this.
        width = model.frame_width
        per_block = 8 * width * (1 + 1 / 2 + 1 / 4 + 1 / 2 + 1) + 4 * width / 4
        changes_of_rate = 2 * (2 * width / 2 + 2 * width / 4)
        per_encoded_position = width * (
            model.frame_blocks * per_block + changes_of_rate + 2 * channels + model.text_width
        )
    padded = (
        token_count * convolution
        + token_count**2 * attention_per_pair
        + token_count * positions * channels
        + positions * per_encoded_position
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
    """Return the length by max_steps, by epochs, or by default for this many batches."""
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
    beyond = "below the default minimum" if bound == MIN_STEPS else "above the default maximum"
    reason = (
        f"{DEFAULT_EPOCHS} epochs would be {steps:,} steps, {beyond}. Change it with --max-steps."
    )
    return RunLength(bound, bound / batches_per_epoch, reason)


class BatchSize(NamedTuple):
    size: int
    reason: str


def with_recommended_batch_size(
    clips: Clips, config: XTTSConfig, *, replicas: int = 1
) -> tuple[XTTSConfig, BatchSize]:
    """Return the configuration that `train` uses, and the batch size for the clips that fit it.

    That is the configured size, halved while there are too few clips or too long ones.
    """
    fits = clips.fitting(config.data.max_text_length, config.data.max_mel_frames)
    count = int(fits.sum())
    # A vocoder is trained on short segments, however long the clips are.
    is_vocoder = config.training.task == "vocoder"
    longest = 0 if is_vocoder else int(clips.frame_counts[fits].max(initial=0))
    size, reason = config.data.batch_size, "as configured"
    while True:
        if count < size * config.training.gradient_accumulation_steps:
            reason = f"more than the {count} clips there are would repeat some"
        elif longest * size > _MAX_FRAMES_PER_BATCH:
            reason = "more would need much memory for the longest clips"
        else:
            break
        # Replicas need equal shares.
        if size < 2 * _MIN_RECOMMENDED_BATCH or size % (2 * replicas):
            break
        size //= 2
    if not config.has_own_batch_size and size != config.data.batch_size:
        config = config.with_(batch_size=size)
    return config, BatchSize(size, reason)


def describe_plan(plan: ShapePlan, config: XTTSConfig) -> str:
    """Return a table of shapes with their clips, in all and per batch."""
    if plan.dynamic:
        return "Shapes     dynamic: each batch is as long as its longest clip"
    accumulation = config.training.gradient_accumulation_steps
    lines = ["Shapes     tokens  frames   clips   batch"]
    lines += [
        f"           {shape.tokens:>6} {shape.frames:>7} {plan.clips_of(index).size:>7} "
        f"{shape.batch // accumulation:>7}"
        for index, shape in enumerate(plan.shapes)
    ]
    ratios = f"{plan.valid_frame_ratio:.1%} real frames, {plan.valid_work_ratio:.1%} real work"
    return "\n".join([*lines, f"           {ratios}"])


def save_plan(plan: ShapePlan, config: XTTSConfig, file: Path) -> None:
    """Save the shapes of a run, so that a resumed run has the same batches."""
    content = {
        "settings": _deciding_settings(config),
        "shapes": [
            {**shape._asdict(), "clips": int(plan.clips_of(index).size)}
            for index, shape in enumerate(plan.shapes)
        ],
        "whole_epochs": plan.whole_epochs,
        # The padding of dynamic batches is not known in advance.
        "valid_frame_ratio": None if plan.dynamic else plan.valid_frame_ratio,
        "valid_work_ratio": None if plan.dynamic else plan.valid_work_ratio,
        "rejected": plan.rejected,
    }
    write_file(file, json.dumps(content, indent=1))


def load_shapes(file: Path, config: XTTSConfig) -> tuple[list[tuple[int, int, int]], bool] | None:
    """Return the saved (batch, tokens, frames) of shapes, and whether epochs are whole.

    None if settings that affect the shapes have changed.
    """
    try:
        content = read_json(file, ("settings", "shapes", "whole_epochs"))
        shapes = [(shape["batch"], shape["tokens"], shape["frames"]) for shape in content["shapes"]]
        if not shapes:
            raise ValueError("no shapes")
        # A plan of an earlier version may name more settings.
        now = _deciding_settings(config)
        is_same = {name: content["settings"].get(name) for name in now} == now
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{file}: not a valid shape plan ({error}); delete it to plan the shapes again"
        ) from error
    return (shapes, content["whole_epochs"]) if is_same else None


def _deciding_settings(config: XTTSConfig) -> dict[str, Any]:
    """Return the settings that determine the shapes, without devices and the length of the run."""
    data, accumulation = config.data, config.training.gradient_accumulation_steps
    return {
        "batching": data.batching_mode,
        "batch_size": config.clips_per_step,
        "shape_count": data.shape_count,
        "max_text_length": data.max_text_length,
        "max_mel_frames": data.max_mel_frames,
        "speaker_balance": data.speaker_balance,
        "language_balance": data.language_balance,
        "gradient_accumulation_steps": accumulation,
    }
