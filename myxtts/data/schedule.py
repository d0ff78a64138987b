"""Which clips make batch k of epoch e: a pure function of (seed, e, k).

There is no state between batches. So a resumed run continues exactly where it stopped, and seeking
to step one million costs as much as seeking to step ten.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from myxtts.config.config import TrainingConfig, XTTSConfig
from myxtts.data.shapes import (
    Clips,
    FloatArray,
    IntArray,
    RunLength,
    Shape,
    ShapePlan,
    balanced_order,
    by_text_length,
    cumulative_share,
    round_up,
    run_length,
    slots_of_share,
    strata_by_row,
)

# Fractional parts of its multiples are evenly spread and never repeat.
_GOLDEN_RATIO = (1 + 5**0.5) / 2
# Halves whose frame counts differ by less than this fraction are left as they are.
_EVEN_ENOUGH = 0.005
_MAX_SWAPS = 4
# Number of best swaps to try until the texts fit.
_SWAPS_TRIED = 12


class Stream(enum.IntEnum):
    """Independent random streams from one seed."""

    ORDER = 0
    REFERENCES = 1
    ROTATION = 2
    AUGMENTATION = 3
    NOISE = 4
    SEGMENTS = 5


def generator_at(seed: int, stream: Stream, number: int = 0) -> np.random.Generator:
    """Return the generator of one number, such as a step, of a stream."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, stream, number])))


@dataclass(frozen=True)
class PlannedBatch:
    shape: Shape
    shares: int
    """Number of equal parts the batch is split into, each with its own slots."""
    clips: IntArray
    """Indices of the clips."""
    references: IntArray
    """Clip of the same speaker for each clip; a different one if possible."""
    reference_starts: FloatArray
    """Start of each reference, as a fraction of the possible starts."""

    def part(self, worker: int, workers: int) -> PlannedBatch:
        """Return the rows of one worker in multi-worker training."""
        size = self.clips.size // workers
        rows = slice(worker * size, (worker + 1) * size)
        return PlannedBatch(
            self.shape.part(workers),
            self.shares // workers,
            self.clips[rows],
            self.references[rows],
            self.reference_starts[rows],
        )


class Schedule:
    def __init__(self, clips: Clips, plan: ShapePlan, config: XTTSConfig) -> None:
        # Ordering an epoch is costly, so two are cached: prefetching reaches into the next one.
        self._epoch = functools.lru_cache(maxsize=2)(self._order_epoch)
        self._plan = plan
        self._seed = config.training.seed
        self._frames_per_position = config.model.frames_per_position
        self._clips = clips
        self._clips_of_shape = [plan.clips_of(shape) for shape in range(len(plan.shapes))]
        # Number of batches per shape, with clips counted by weight.
        self._batches_of_shapes = np.array(
            [
                (clips.size if plan.weights is None else plan.weights[clips].sum()) / shape.batch
                for clips, shape in zip(self._clips_of_shape, plan.shapes, strict=True)
            ]
        )
        usable = np.flatnonzero(plan.shape_of_clip >= 0)
        by_speaker = np.argsort(clips.speakers[usable], kind="stable")
        self._clips_by_speaker = usable[by_speaker].astype(np.int32)
        self._speaker_sizes = np.bincount(clips.speakers[usable])
        self._speaker_starts = np.cumsum(self._speaker_sizes) - self._speaker_sizes
        self._place_among_speaker = np.zeros(len(clips.speakers), np.int64)
        self._place_among_speaker[self._clips_by_speaker] = (
            np.arange(usable.size) - self._speaker_starts[clips.speakers[self._clips_by_speaker]]
        )

    @property
    def batches_per_epoch(self) -> int:
        batches = self._batches_of_shapes
        if self._plan.weights is None:
            return int(np.ceil(batches).sum())
        return max(1, round(batches.sum()))

    def planned_length(self, training: TrainingConfig) -> RunLength:
        return run_length(training, self.batches_per_epoch)

    def planned_steps(self, training: TrainingConfig) -> int:
        return self.planned_length(training).steps

    def batch_at(self, step: int) -> PlannedBatch:
        """Return the batch of a step, counted from 0 across epochs."""
        epoch, number = divmod(step, self.batches_per_epoch)
        index, clips = self._epoch(epoch)[number]
        shape = self._plan.shapes[index]
        if self._plan.dynamic:
            # Pad to the longest clip, without packing.
            tokens = int(self._clips.token_counts[clips].max())
            longest = int(self._clips.frame_counts[clips].max())
            frames = round_up(longest, self._frames_per_position)
            shape = Shape(clips.size, tokens, frames, clips.size // self._plan.shares * tokens)
        else:
            slots = self._slots_by_shares(index)
            clips = balance_halves(clips, self._clips.frame_counts, self._clips.token_counts, slots)
        generator = generator_at(self._seed, Stream.REFERENCES, step)
        return PlannedBatch(
            shape=shape,
            shares=self._plan.shares,
            clips=clips,
            references=self._other_clips(clips, generator),
            reference_starts=generator.random(clips.size),
        )

    def _order_epoch(self, epoch: int) -> list[tuple[int, IntArray]]:
        """Return all batches of an epoch, shapes interleaved.

        Without weights every clip occurs, and the last batch of each shape is filled up. With
        weights the number of batches of a shape varies by one between epochs, so that it is right
        on average.
        """
        generator = generator_at(self._seed, Stream.ORDER, epoch)
        counts = np.ceil(self._batches_of_shapes).astype(np.int64)
        if self._plan.weights is not None:
            counts = split_by_weight(
                self._batches_of_shapes, self.batches_per_epoch, generator.random()
            )
        batches: list[tuple[int, IntArray]] = []
        for index, count in enumerate(counts):
            if count == 0:
                continue
            if self._plan.weights is not None:
                order = self._draw_by_weight(index, count, epoch, generator)
            elif self._plan.dynamic:
                clips, size = self._clips_of_shape[index], self._plan.shapes[index].batch
                order = np.resize(generator.permutation(clips), (count, size))
            else:
                # Each stratum's clips shuffled, one per batch. A stratum that is one clip short
                # repeats one of its own, so the bound on tokens also holds for the last batch.
                rows = [np.resize(generator.permutation(row), count) for row in self._strata(index)]
                order = np.stack(rows, axis=1)
            batches += [(index, batch) for batch in order]
        return [batches[place] for place in generator.permutation(len(batches))]

    def _draw_by_weight(
        self, shape_index: int, count: int, epoch: int, generator: np.random.Generator
    ) -> IntArray:
        """Draw [count, batch]: each clip in proportion to its weight, rounded down or up.

        The offset changes with the epoch, so that clips that do not occur in every epoch
        alternate.
        """
        assert self._plan.weights is not None
        clips = by_text_length(self._clips_of_shape[shape_index], self._clips.token_counts)
        start = generator_at(self._seed, Stream.ROTATION, shape_index).random()
        shape = count, self._plan.shapes[shape_index].batch
        offset = (start + epoch * _GOLDEN_RATIO) % 1
        batches = draw_rows(clips, self._plan.weights[clips], shape, offset, generator)
        return generator.permuted(batches) if self._plan.dynamic else batches

    @functools.cache  # noqa: B019 - a schedule lives as long as its run
    def _strata(self, shape_index: int) -> list[IntArray]:
        clips, size = self._clips_of_shape[shape_index], self._plan.shapes[shape_index].batch
        return strata_by_row(clips, self._clips.token_counts, size, self._plan.weights)

    @functools.cache  # noqa: B019 - a schedule lives as long as its run
    def _slots_by_shares(self, shape_index: int) -> dict[int, int]:
        """Return the slots per share, for every number of shares a batch can be split into."""
        strata = self._strata(shape_index)
        return {
            shares: slots_of_share(strata, self._clips.token_counts, shares)
            for shares in range(2, len(strata) + 1)
            if len(strata) % shares == 0
        }

    def _other_clips(self, clips: IntArray, generator: np.random.Generator) -> IntArray:
        speakers = self._clips.speakers[clips]
        sizes = self._speaker_sizes[speakers]
        # An offset of 1 to size - 1 within the speaker's clips never gives the clip itself.
        steps = 1 + (generator.random(clips.size) * (sizes - 1)).astype(np.int64)
        places = (self._place_among_speaker[clips] + steps) % sizes
        return self._clips_by_speaker[self._speaker_starts[speakers] + places]


def draw_rows(
    ordered: IntArray,
    weights: FloatArray,
    shape: tuple[int, int],
    offset: float,
    generator: np.random.Generator,
) -> IntArray:
    """Draw `count` batches, [count, batch], each row from its stratum of equal weight.

    `ordered` are the clips by text length, `weights` their weights. Each clip is repeated in
    proportion to its weight; every `count` consecutive copies are one stratum.
    """
    count, batch = shape
    drawn = np.repeat(ordered, split_by_weight(weights, count * batch, offset))
    rows = generator.permuted(drawn.reshape(batch, count), axis=1)
    return rows[balanced_order(batch)].T


def split_by_weight(weights: FloatArray, total: int, offset: float) -> npt.NDArray[np.int64]:
    """Split `total` into integers, each proportional to its weight and rounded down or up.

    Averaged over all offsets from 0 to 1, each part is exactly proportional.
    """
    marks = np.floor(cumulative_share(weights) * total + offset).clip(max=total)
    return np.diff(marks, prepend=0).astype(np.int64)


def balance_halves(
    clips: IntArray, frame_counts: IntArray, token_counts: IntArray, slots_of: dict[int, int]
) -> IntArray:
    """Reorder the clips of a batch so that halves, and quarters, have similar frame counts.

    Rows are swapped only if the texts of every share still fit its slots, for every number of
    shares. So the order does not depend on that number.
    """
    order = clips.copy()

    def texts_fit() -> bool:
        tokens = token_counts[order]
        return all(
            tokens.reshape(shares, -1).sum(axis=1).max() <= slots
            for shares, slots in slots_of.items()
        )

    def swap_rows(start: int, middle: int, end: int) -> bool:
        """Swap two rows to make the halves more equal, and return whether it did."""
        frames = frame_counts[order[start:end]].astype(np.int64)
        first, second = frames[: middle - start], frames[middle - start :]
        excess = first.sum() - second.sum()
        if abs(excess) <= _EVEN_ENOUGH * frames.sum():
            return False
        left = np.abs(excess - 2 * (first[:, None] - second))
        for place in np.argsort(left, axis=None)[:_SWAPS_TRIED]:
            row, other = divmod(int(place), second.size)
            if left[row, other] >= abs(excess):
                break
            pair = [start + row, middle + other]
            order[pair] = order[pair[::-1]]
            if texts_fit():
                return True
            order[pair] = order[pair[::-1]]
        return False

    def balance(start: int, end: int) -> None:
        middle = (start + end) // 2
        if (end - start) % 2 or middle == start:
            return
        for _ in range(_MAX_SWAPS):
            if not swap_rows(start, middle, end):
                break
        balance(start, middle)
        balance(middle, end)

    balance(0, order.size)
    return order
