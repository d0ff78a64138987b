"""Segments of recordings for the vocoder, from the cached samples, with their mels."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.audio.mel import LOG_FLOOR, log_mel_of_frames, mel_weights, used_bins
from myxtts.audio.mel_geometry import padded_samples, padding_samples, span_samples, window_start
from myxtts.config.config import XTTSConfig
from myxtts.data.cache import FULL_SCALE
from myxtts.data.clip_mels import ClipMels
from myxtts.data.corpus import CorpusPart
from myxtts.data.lengths import IntArray
from myxtts.data.random_streams import Stream, generator_at
from myxtts.data.segment_changes import SegmentChanges
from myxtts.data.shapes import ShapePlan
from myxtts.data.sources import HOST


class SegmentBatch(NamedTuple):
    samples: Any  # float32 [batch, samples from the first to the last frame]
    mel: Any  # float32 [batch, frames, mels]
    predicted_mel: Any  # the same by a model; without frames if there is none
    frame_counts: Any  # int32 [batch]: frames up to the end of the clip


class PaddedSegments(NamedTuple):
    """Samples with half a window before and after, to compute mels from."""

    samples: Any  # float32 [batch, samples]
    predicted_mel: Any  # float32 [batch, frames, mels]; without frames if there is none
    frame_counts: Any  # int32 [batch]


class SegmentLoader:
    """Cuts a random segment out of each of some clips; with their predicted mels, if given."""

    def __init__(
        self, part: CorpusPart, config: XTTSConfig, predicted_mels: ClipMels | None = None
    ) -> None:
        self._cache = part.cache
        self._predicted_mels = predicted_mels
        self._n_mels = config.data.n_mels
        self._audio = config.audio
        self._changes = SegmentChanges(config)
        self._frames = config.vocoder.frames_per_segment
        self._width = _padded_width(config)

    def load(
        self, clips: IntArray, seeds: npt.NDArray[np.int64], *, is_changed: bool
    ) -> PaddedSegments:
        """As recorded, or changed at random; there is a seed for each clip.

        With a predicted mel they are as recorded: it would not fit what was changed.
        """
        is_changed = is_changed and self._predicted_mels is None
        width = math.ceil(self._width * self._changes.most_pitch) if is_changed else self._width
        segments, mels, frame_counts = [], [], []
        for clip, seed in zip(clips.tolist(), seeds.tolist(), strict=True):
            generator = np.random.default_rng(seed)
            frames_there = int(self._cache.index["mels_count"][clip])
            start = int(generator.integers(max(0, frames_there - self._frames) + 1))
            samples = self._samples(clip, start, width)
            if is_changed:
                samples = self._changes.draw(generator, width).applied_to(samples)
            segments.append(samples[: self._width])
            mels.append(self._predicted_mel(clip, start))
            frame_counts.append(min(frames_there - start, self._frames))
        return PaddedSegments(np.stack(segments), np.stack(mels), np.array(frame_counts, np.int32))

    def _predicted_mel(self, clip: int, first_frame: int) -> npt.NDArray[np.float32]:
        """Silence after the end of the clip."""
        if self._predicted_mels is None:
            return np.zeros((0, self._n_mels), np.float32)
        found = self._predicted_mels.of(clip, first_frame, self._frames)
        mel = np.full((self._frames, self._n_mels), np.log(LOG_FLOOR), np.float32)
        mel[: len(found)] = found
        return mel

    def _samples(self, clip: int, first_frame: int, width: int) -> npt.NDArray[np.float32]:
        """From half a window before the first frame; zeros before and after the clip."""
        first = window_start(first_frame, self._audio)
        place = max(0, -first)
        samples = np.zeros(width, np.float32)
        there = self._cache.part_of(clip, "audio", max(0, first), width - place)
        samples[place : place + there.size] = there
        return samples / np.float32(FULL_SCALE)


class SegmentSource:
    """Implements BatchSource for the vocoder.

    In multi-worker training each worker loads its own part of every batch.
    """

    computes_features = True
    arrays_read: Sequence[str] = ("audio",)

    def __init__(
        self,
        part: CorpusPart,
        config: XTTSConfig,
        predicted_mels: ClipMels | None = None,
        *,
        data_device: str | None = None,
        worker: int = 0,
        workers: int = 1,
    ) -> None:
        self.device = data_device or HOST
        self.has_own_device = data_device is not None
        self.cache = part.cache
        self._schedule = part.schedule
        self._config = config
        self._place = worker, workers
        self._loader = SegmentLoader(part, config, predicted_mels)
        numbers = _padded_width(config) + config.vocoder.frames_per_segment * config.data.n_mels
        self.largest_batch_bytes = 4 * part.plan.shapes[0].batch * numbers

    @property
    def signature(self) -> PaddedSegments:
        width = _padded_width(self._config)
        return PaddedSegments(
            tf.TensorSpec([None, width], tf.float32),
            _predicted_mel_spec(self._config, None),
            tf.TensorSpec([None], tf.int32),
        )

    def load(self, step: int) -> PaddedSegments:
        clips = self._schedule.batch_at(step).clips
        generator = generator_at(self._config.training.seed, Stream.SEGMENTS, step)
        seeds = generator.integers(1 << 62, size=clips.size)
        worker, workers = self._place
        clips, seeds = np.split(clips, workers)[worker], np.split(seeds, workers)[worker]
        return self._loader.load(clips, seeds, is_changed=True)

    @functools.cached_property
    def features(self) -> Callable[[PaddedSegments], SegmentBatch]:
        features: Callable[[PaddedSegments], SegmentBatch] = tf.function(
            lambda segments: with_mels(segments, self._config),
            input_signature=[self.signature],
            autograph=False,
        )
        return features

    def computed(self, loaded: Any) -> Any:
        with tf.device(self.device):
            return self.features(loaded)


def with_mels(segments: PaddedSegments, config: XTTSConfig) -> SegmentBatch:
    audio = config.audio
    before, _ = padding_samples(audio)
    span = span_samples(config.vocoder.frames_per_segment, audio)
    return SegmentBatch(
        segments.samples[:, before : before + span],
        _recorded_mel(segments.samples, config),
        segments.predicted_mel,
        segments.frame_counts,
    )


def _recorded_mel(samples: Any, config: XTTSConfig) -> tf.Tensor:
    audio = config.audio
    weights = mel_weights(audio, config.data.n_mels)
    frames = tf.signal.frame(samples, audio.fft_samples, audio.hop_samples)
    return log_mel_of_frames(frames, weights[: used_bins(weights)])


def segment_signature(config: XTTSConfig, plan: ShapePlan | None = None) -> SegmentBatch:
    frames = config.vocoder.frames_per_segment
    size = None if plan is None else plan.shapes[0].batch
    return SegmentBatch(
        tf.TensorSpec([size, span_samples(frames, config.audio)], tf.float32),
        tf.TensorSpec([size, frames, config.data.n_mels], tf.float32),
        _predicted_mel_spec(config, size),
        tf.TensorSpec([size], tf.int32),
    )


def _predicted_mel_spec(config: XTTSConfig, size: int | None) -> tf.TensorSpec:
    frames = config.vocoder.frames_per_segment if config.vocoder.mels_from else 0
    return tf.TensorSpec([size, frames, config.data.n_mels], tf.float32)


def _padded_width(config: XTTSConfig) -> int:
    span = span_samples(config.vocoder.frames_per_segment, config.audio)
    return padded_samples(span, config.audio)
