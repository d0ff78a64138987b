"""Which clips make batch k of epoch e: a pure function of (seed, e, k).

Nothing is remembered between batches, so a resumed run goes on exactly where it stopped, and
finding step one million costs what finding step ten costs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from myxtts.data.cache import FeatureCache
from myxtts.data.shapes import IntArray, Shape, ShapePlan

# Separate streams of random numbers from one seed.
_ORDER_STREAM, _REFERENCE_STREAM = 0, 1


@dataclass(frozen=True)
class PlannedBatch:
    shape: Shape
    clips: IntArray
    """Indices of the clips that are trained on."""
    references: IntArray
    """For each clip, a clip of the same speaker: another one where there is one."""
    reference_starts: npt.NDArray[np.float64]
    """Where each reference is cut, as a share of the room there is."""


class Schedule:
    def __init__(self, cache: FeatureCache, plan: ShapePlan, seed: int) -> None:
        self._plan = plan
        self._seed = seed
        self._clips_of_shape = [plan.clips_of(shape) for shape in range(len(plan.shapes))]
        self._speaker_of_clip: IntArray = np.asarray(cache.index["speaker"])
        usable = np.flatnonzero(plan.shape_of_clip >= 0)
        self._clips_by_speaker = usable[
            np.argsort(self._speaker_of_clip[usable], kind="stable")
        ].astype(np.int32)
        speakers = len(cache.speakers)
        self._speaker_sizes = np.bincount(self._speaker_of_clip[usable], minlength=speakers)
        self._speaker_starts = np.cumsum(self._speaker_sizes) - self._speaker_sizes
        self._place_among_speaker = np.zeros(len(cache), np.int64)
        self._place_among_speaker[self._clips_by_speaker] = (
            np.arange(usable.size)
            - self._speaker_starts[self._speaker_of_clip[self._clips_by_speaker]]
        )

    @functools.cached_property
    def batches_per_epoch(self) -> int:
        return sum(
            -(-clips.size // shape.batch)
            for clips, shape in zip(self._clips_of_shape, self._plan.shapes, strict=True)
        )

    def batch_at(self, step: int) -> PlannedBatch:
        """The batch of a training step, counted from 0 through all epochs."""
        epoch, number = divmod(step, self.batches_per_epoch)
        shape_index, clips = self._epoch(epoch)[number]
        generator = self._generator(_REFERENCE_STREAM, step)
        return PlannedBatch(
            shape=self._plan.shapes[shape_index],
            clips=clips,
            references=self._other_clips(clips, generator),
            reference_starts=generator.random(clips.size),
        )

    @functools.lru_cache(maxsize=2)  # noqa: B019 - a schedule lives as long as its run
    def _epoch(self, epoch: int) -> list[tuple[int, IntArray]]:
        """All batches of an epoch, shapes interleaved, the last batch of each shape filled up."""
        generator = self._generator(_ORDER_STREAM, epoch)
        batches: list[tuple[int, IntArray]] = []
        for index, (clips, shape) in enumerate(
            zip(self._clips_of_shape, self._plan.shapes, strict=True)
        ):
            if clips.size == 0:
                continue
            count = -(-clips.size // shape.batch)
            order = np.resize(generator.permutation(clips), count * shape.batch)
            batches += [(index, part) for part in order.reshape(count, shape.batch)]
        return [batches[place] for place in generator.permutation(len(batches))]

    def _other_clips(self, clips: IntArray, generator: np.random.Generator) -> IntArray:
        speakers = self._speaker_of_clip[clips]
        sizes = self._speaker_sizes[speakers]
        # A step of 1 to size - 1 through the speaker's clips never lands on the clip itself.
        steps = 1 + (generator.random(clips.size) * (sizes - 1)).astype(np.int64)
        places = (self._place_among_speaker[clips] + steps) % sizes
        return self._clips_by_speaker[self._speaker_starts[speakers] + places]

    def _generator(self, stream: int, number: int) -> np.random.Generator:
        return np.random.Generator(
            np.random.Philox(np.random.SeedSequence([self._seed, stream, number]))
        )
