"""Which clips make batch k of epoch e: a pure function of (seed, e, k).

There is no state between batches, so a resumed run continues exactly where it stopped, and seeking
to step one million costs no more than seeking to step ten.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.config.config import TrainingConfig, XTTSConfig
from myxtts.data.sampling import (
    ClipLabels,
    IntArray,
    Stream,
    Weights,
    balance_halves,
    by_text_length,
    draw_rows,
    generator_at,
    slots_by_shares,
    split_by_weight,
    strata_by_row,
)
from myxtts.data.shapes import RunLength, Shape, ShapePlan, round_up, run_length

# Fractional parts of its multiples are evenly spread and never repeat.
_GOLDEN_RATIO = (1 + 5**0.5) / 2


@dataclass(frozen=True)
class PlannedBatch:
    shape: Shape
    shares: int
    """Number of equal parts the batch is split into, each with its own slots."""
    clips: IntArray
    """Indices of the clips."""
    references: IntArray
    """For each clip, a clip of the same speaker: a different one if there is one."""
    reference_starts: npt.NDArray[np.float64]
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


class Clips(NamedTuple):
    """Lengths and labels of clips."""

    token_counts: IntArray
    frame_counts: IntArray
    speakers: IntArray
    """Speaker number of each clip."""
    languages: IntArray
    """Language number of each clip."""

    @property
    def labels(self) -> ClipLabels:
        return ClipLabels(self.speakers, self.languages)


class Schedule:
    def __init__(self, clips: Clips, plan: ShapePlan, config: XTTSConfig) -> None:
        # Ordering an epoch is costly, so two are cached: prefetching reaches into the next one.
        self._epoch = functools.lru_cache(maxsize=2)(self._order_epoch)
        self._plan = plan
        self._seed = config.training.seed
        self._frames_per_position = config.model.frames_per_position
        self._token_counts, self._frame_counts = clips.token_counts, clips.frame_counts
        self._speaker_of_clip = clips.speakers
        self._clips_of_shape = [plan.clips_of(shape) for shape in range(len(plan.shapes))]
        usable = np.flatnonzero(plan.shape_of_clip >= 0)
        self._clips_by_speaker = usable[
            np.argsort(self._speaker_of_clip[usable], kind="stable")
        ].astype(np.int32)
        self._speaker_sizes = np.bincount(self._speaker_of_clip[usable])
        self._speaker_starts = np.cumsum(self._speaker_sizes) - self._speaker_sizes
        self._place_among_speaker = np.zeros(len(self._speaker_of_clip), np.int64)
        self._place_among_speaker[self._clips_by_speaker] = (
            np.arange(usable.size)
            - self._speaker_starts[self._speaker_of_clip[self._clips_by_speaker]]
        )

    @functools.cached_property
    def batches_per_epoch(self) -> int:
        batches = self._batches_of_shapes
        return max(1, round(batches.sum())) if self._is_weighted else int(np.ceil(batches).sum())

    @functools.cached_property
    def _batches_of_shapes(self) -> npt.NDArray[np.float64]:
        """Number of batches per shape, with clips counted by weight."""
        weights = self._plan.weights
        return np.array(
            [
                (clips.size if weights is None else weights[clips].sum()) / shape.batch
                for clips, shape in zip(self._clips_of_shape, self._plan.shapes, strict=True)
            ]
        )

    @property
    def _is_weighted(self) -> bool:
        return self._plan.weights is not None

    def planned_length(self, training: TrainingConfig) -> RunLength:
        return run_length(training, self.batches_per_epoch)

    def planned_steps(self, training: TrainingConfig) -> int:
        return self.planned_length(training).steps

    def batch_at(self, step: int) -> PlannedBatch:
        """Return the batch of a step, counted from 0 across epochs."""
        epoch, number = divmod(step, self.batches_per_epoch)
        shape_index, clips = self._epoch(epoch)[number]
        if not self._plan.dynamic:
            slots = self._slots_by_shares(shape_index)
            clips = balance_halves(clips, self._frame_counts, self._token_counts, slots)
        generator = generator_at(self._seed, Stream.REFERENCES, step)
        shape = self._plan.shapes[shape_index]
        return PlannedBatch(
            shape=self._shape_of(clips) if self._plan.dynamic else shape,
            shares=self._plan.shares,
            clips=clips,
            references=self._other_clips(clips, generator),
            reference_starts=generator.random(clips.size),
        )

    def _order_epoch(self, epoch: int) -> list[tuple[int, IntArray]]:
        """Return all batches of an epoch, shapes interleaved."""
        generator = generator_at(self._seed, Stream.ORDER, epoch)
        batches: list[tuple[int, IntArray]] = []
        for index, count in enumerate(self._batch_counts(generator)):
            if count == 0:
                continue
            if self._is_weighted:
                order = self._draw_by_weight(index, count, epoch, generator)
            elif self._plan.dynamic:
                clips, size = self._clips_of_shape[index], self._plan.shapes[index].batch
                order = np.resize(generator.permutation(clips), (count, size))
            else:
                order = self._draw_evenly(index, count, generator)
            batches += [(index, batch) for batch in order]
        return [batches[place] for place in generator.permutation(len(batches))]

    def _batch_counts(self, generator: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return the number of batches of each shape in an epoch.

        Without weights every clip occurs, and the last batch of each shape is filled up. With
        weights the number varies by one between epochs, so that it is right on average.
        """
        if self._is_weighted:
            return split_by_weight(
                self._batches_of_shapes, self.batches_per_epoch, generator.random()
            )
        return np.ceil(self._batches_of_shapes).astype(np.int64)

    def _draw_by_weight(
        self, shape_index: int, count: int, epoch: int, generator: np.random.Generator
    ) -> IntArray:
        """Draw [count, batch]: each clip in proportion to its weight, rounded down or up.

        The offset changes with the epoch, so that clips that do not occur in every epoch
        alternate.
        """
        clips, weights = self._clips_and_weights(shape_index)
        start = generator_at(self._seed, Stream.ROTATION, shape_index).random()
        shape = count, self._plan.shapes[shape_index].batch
        offset = (start + epoch * _GOLDEN_RATIO) % 1
        batches = draw_rows(clips, weights, shape, offset, generator)
        return generator.permuted(batches) if self._plan.dynamic else batches

    def _draw_evenly(
        self, shape_index: int, count: int, generator: np.random.Generator
    ) -> npt.NDArray[np.int32]:
        """Draw [count, batch]: each row's clips shuffled, one per batch.

        A row that is one clip short repeats one of its own, so that the bound on the tokens of a
        batch also holds for the last batch.
        """
        rows = self._strata(shape_index)
        return np.stack([np.resize(generator.permutation(row), count) for row in rows], axis=1)

    @functools.cache  # noqa: B019 - a schedule lives as long as its run
    def _strata(self, shape_index: int) -> list[IntArray]:
        clips, size = self._clips_of_shape[shape_index], self._plan.shapes[shape_index].batch
        return strata_by_row(clips, self._token_counts, size, self._plan.weights)

    @functools.cache  # noqa: B019 - a schedule lives as long as its run
    def _clips_and_weights(self, shape_index: int) -> tuple[IntArray, Weights]:
        assert self._plan.weights is not None
        clips = by_text_length(self._clips_of_shape[shape_index], self._token_counts)
        return clips, self._plan.weights[clips]

    @functools.cache  # noqa: B019 - a schedule lives as long as its run
    def _slots_by_shares(self, shape_index: int) -> dict[int, int]:
        return slots_by_shares(self._strata(shape_index), self._token_counts)

    def _shape_of(self, clips: IntArray) -> Shape:
        """Return the shape of a dynamic batch: as long as its longest clip, without packing."""
        tokens = int(self._token_counts[clips].max())
        frames = round_up(int(self._frame_counts[clips].max()), self._frames_per_position)
        return Shape(clips.size, tokens, frames, clips.size // self._plan.shares * tokens)

    def _other_clips(self, clips: IntArray, generator: np.random.Generator) -> IntArray:
        speakers = self._speaker_of_clip[clips]
        sizes = self._speaker_sizes[speakers]
        # An offset of 1 to size - 1 within the speaker's clips never gives the clip itself.
        steps = 1 + (generator.random(clips.size) * (sizes - 1)).astype(np.int64)
        places = (self._place_among_speaker[clips] + steps) % sizes
        return self._clips_by_speaker[self._speaker_starts[speakers] + places]
