"""Which clips make batch k of epoch e: a pure function of (seed, e, k).

Nothing is remembered between batches, so a resumed run goes on exactly where it stopped, and
finding step one million costs what finding step ten costs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.config.config import TrainingConfig, XTTSConfig
from myxtts.data.lengths import IntArray, round_up
from myxtts.data.planning.balance import Voices, Weights
from myxtts.data.planning.dealing import (
    by_text_length,
    draw_rows,
    evened_out,
    room_of_shares,
    split_by_weight,
    strata_by_row,
)
from myxtts.data.planning.run_length import RunLength, run_length
from myxtts.data.planning.shapes import Shape, ShapePlan
from myxtts.data.random_streams import Stream, generator_at

# Multiples of it, without their whole parts, come evenly and never twice to the same place.
_GOLDEN_RATIO = (1 + 5**0.5) / 2


@dataclass(frozen=True)
class PlannedBatch:
    shape: Shape
    shares: int
    """Equal parts that the batch is split into, each with room for its own texts."""
    clips: IntArray
    """Indices of the clips that are trained on."""
    references: IntArray
    """For each clip, a clip of the same speaker: another one where there is one."""
    reference_starts: npt.NDArray[np.float64]
    """Where each reference is cut, as a share of the room there is."""

    def part(self, worker: int, workers: int) -> PlannedBatch:
        """The rows that one of several machines trains on."""
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
    """What a schedule has to know of each clip."""

    token_counts: IntArray
    frame_counts: IntArray
    speakers: IntArray
    """A number for each clip's speaker."""
    languages: IntArray
    """A number for each clip's language."""

    @property
    def voices(self) -> Voices:
        return Voices(self.speakers, self.languages)


class Schedule:
    def __init__(self, clips: Clips, plan: ShapePlan, config: XTTSConfig) -> None:
        # An epoch costs what its clips cost, so it is kept; batches ahead of use are of the next.
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
        """As many as the clips of each shape fill, each counted as much as it weighs."""
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
        """The batch of a training step, counted from 0 through all epochs."""
        epoch, number = divmod(step, self.batches_per_epoch)
        shape_index, clips = self._epoch(epoch)[number]
        if not self._plan.dynamic:
            room = self._room_of_shares(shape_index)
            clips = evened_out(clips, self._frame_counts, self._token_counts, room)
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
        """All batches of an epoch, shapes interleaved."""
        generator = generator_at(self._seed, Stream.ORDER, epoch)
        batches: list[tuple[int, IntArray]] = []
        for index, count in enumerate(self._batch_counts(generator)):
            if count == 0:
                continue
            if self._is_weighted:
                order = self._deal_by_weight(index, count, epoch, generator)
            elif self._plan.dynamic:
                clips, size = self._clips_of_shape[index], self._plan.shapes[index].batch
                order = np.resize(generator.permutation(clips), (count, size))
            else:
                order = self._deal_evenly(index, count, generator)
            batches += [(index, batch) for batch in order]
        return [batches[place] for place in generator.permutation(len(batches))]

    def _batch_counts(self, generator: np.random.Generator) -> npt.NDArray[np.int64]:
        """How many batches of each shape an epoch has.

        Without weights every clip comes, and the last batch of each shape is filled up. With them
        a shape has a batch more or less from epoch to epoch, so that it has its share on average.
        """
        if self._is_weighted:
            return split_by_weight(
                self._batches_of_shapes, self.batches_per_epoch, generator.random()
            )
        return np.ceil(self._batches_of_shapes).astype(np.int64)

    def _deal_by_weight(
        self, shape_index: int, count: int, epoch: int, generator: np.random.Generator
    ) -> IntArray:
        """[count, batch]: each clip as often as it weighs, rounded down or up.

        The offset wanders from epoch to epoch, so that clips which do not come in every epoch
        take turns.
        """
        clips, weights = self._clips_and_weights(shape_index)
        start = generator_at(self._seed, Stream.ROTATION, shape_index).random()
        shape = count, self._plan.shapes[shape_index].batch
        offset = (start + epoch * _GOLDEN_RATIO) % 1
        batches = draw_rows(clips, weights, shape, offset, generator)
        return generator.permuted(batches) if self._plan.dynamic else batches

    def _deal_evenly(
        self, shape_index: int, count: int, generator: np.random.Generator
    ) -> npt.NDArray[np.int32]:
        """[count, batch]: each row's clips in a new order, one of them in each batch.

        A row with a clip too few repeats one of its own, so that the bound on the tokens of a
        batch holds for the filled-up batch as well.
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
    def _room_of_shares(self, shape_index: int) -> dict[int, int]:
        return room_of_shares(self._strata(shape_index), self._token_counts)

    def _shape_of(self, clips: IntArray) -> Shape:
        """As long as the longest of these clips, and room for each text as if it were that long."""
        tokens = int(self._token_counts[clips].max())
        frames = round_up(int(self._frame_counts[clips].max()), self._frames_per_position)
        return Shape(clips.size, tokens, frames, clips.size // self._plan.shares * tokens)

    def _other_clips(self, clips: IntArray, generator: np.random.Generator) -> IntArray:
        speakers = self._speaker_of_clip[clips]
        sizes = self._speaker_sizes[speakers]
        # A step of 1 to size - 1 through the speaker's clips never lands on the clip itself.
        steps = 1 + (generator.random(clips.size) * (sizes - 1)).astype(np.int64)
        places = (self._place_among_speaker[clips] + steps) % sizes
        return self._clips_by_speaker[self._speaker_starts[speakers] + places]
