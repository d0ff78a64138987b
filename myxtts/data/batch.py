"""Assembles batches of static shape from the feature cache."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.audio.mel_geometry import padded_samples, span_samples, window_start
from myxtts.config.config import XTTSConfig
from myxtts.data.augmentation import Augmentation, Changes, frames_at_speed
from myxtts.data.batch_type import Batch
from myxtts.data.cache import FeatureCache
from myxtts.data.device_features import WaveformBatch, block_samples
from myxtts.data.lengths import IntArray, round_up
from myxtts.data.schedule import PlannedBatch
from myxtts.data.shapes import Shape, ShapePlan
from myxtts.text.tokenizer import PADDING_ID, Tokenizer


class BatchLoader:
    """Copies the clips of a planned batch from the cache into padded arrays."""

    def __init__(self, cache: FeatureCache, tokenizer: Tokenizer, config: XTTSConfig) -> None:
        if cache.reader.row_shape("mels") != (config.data.n_mels,):
            raise cache.damaged(range(len(cache)))
        self._cache = cache
        self._audio = config.audio
        self._n_mels = config.data.n_mels
        self._reference_frames = config.model.reference_frames
        self._augmentation = Augmentation(config)
        # Maps the cache's own symbol and language ids to those of the run's tokenizer.
        self._token_ids = np.array(
            [tokenizer.symbols.index(symbol) for symbol in cache.tokenizer.symbols], np.int32
        )
        self._language_ids = np.array(
            [tokenizer.language_id(language) for language in cache.tokenizer.languages], np.int32
        )

    def token_ids(self, clip: int) -> npt.NDArray[np.int32]:
        return self._token_ids[self._cache.clip_tokens(clip)]

    def language_id(self, clip: int) -> int:
        return int(self._language_ids[self._cache.index[clip]["language"]])

    def load(self, planned: PlannedBatch) -> Batch:
        """A batch with cached mels."""
        starts, lengths = self._references(planned)
        return Batch(
            **self._texts(planned),
            mel=self._mels(
                planned.clips, 0, self._frame_counts(planned.clips), planned.shape.frames
            ),
            mel_lengths=self._frame_counts(planned.clips),
            reference=self._mels(planned.references, starts, lengths, self._reference_frames),
            reference_lengths=lengths,
        )

    def load_waveforms(self, planned: PlannedBatch, changes: Changes) -> WaveformBatch:
        """A batch with cached samples and their augmentation, to compute mels from."""
        audio = self._audio
        starts, lengths = self._references(planned, changes.speed)
        most_speed = self._augmentation.most_speed
        reference_span = span_samples(self._reference_frames, audio) * most_speed
        return WaveformBatch(
            **self._texts(planned),
            samples=self._samples(planned.clips, 0, span_samples(planned.shape.frames, audio)),
            mel_lengths=frames_at_speed(self._frame_counts(planned.clips), changes.speed),
            reference_samples=self._samples(planned.references, starts, reference_span),
            reference_lengths=lengths,
            changes=changes,
        )

    def changes(self, step: int, planned: PlannedBatch) -> Changes:
        """Augmentation of the clips of a step."""
        records = self._cache.index[planned.clips]
        return self._augmentation.changes(
            step, records["tokens_count"], records["mels_count"], planned.shape.frames
        )

    def _frame_counts(self, clips: IntArray) -> IntArray:
        return self._cache.index["mels_count"][clips]

    def _texts(self, planned: PlannedBatch) -> dict[str, IntArray]:
        records, shape = self._cache.index[planned.clips], planned.shape
        lengths = records["tokens_count"]
        inside = np.arange(shape.tokens) < lengths[:, None]
        stored = np.zeros((shape.batch, shape.tokens), np.int32)
        for row, clip in zip(stored, planned.clips.tolist(), strict=True):
            tokens = self._cache.clip_tokens(clip)
            row[: tokens.size] = tokens
        known = ((stored >= 0) & (stored < len(self._token_ids))).all(axis=1)
        if not known.all():
            raise self._cache.damaged(planned.clips[~known].tolist())
        token_ids = np.where(inside, self._token_ids[stored], PADDING_ID)
        return {
            "token_ids": token_ids,
            "token_lengths": lengths,
            "slots": filled_slots(lengths, shape, planned.shares),
            "language_ids": self._language_ids[records["language"]],
        }

    def _references(self, planned: PlannedBatch, speed: Any = 1.0) -> tuple[IntArray, IntArray]:
        """First frame and number of frames of each reference."""
        counts = self._frame_counts(planned.references)
        wanted = np.ceil(self._reference_frames * speed)
        slack = np.maximum(0, counts - wanted)
        starts = (planned.reference_starts * (slack + 1)).astype(np.int32)
        lengths = np.minimum(self._reference_frames, frames_at_speed(counts - starts, speed))
        return starts, lengths.astype(np.int32)

    def _mels(
        self, clips: IntArray, first_frames: Any, lengths: IntArray, frames: int
    ) -> npt.NDArray[np.float32]:
        firsts = np.broadcast_to(first_frames, clips.shape)
        mels = np.full((clips.size, frames, self._n_mels), self._cache.mel_mean, np.float32)
        for row, clip, first, length in zip(
            mels, clips.tolist(), firsts.tolist(), lengths.tolist(), strict=True
        ):
            row[:length] = self._cache.part_of(clip, "mels", first, length)
        finite = np.isfinite(mels.sum(axis=(1, 2)))
        if not finite.all():
            raise self._cache.damaged(clips[~finite].tolist())
        return mels

    def _samples(self, clips: IntArray, first_frames: Any, span: float) -> npt.NDArray[np.int16]:
        """Samples from half a window before the first frame to half a window after the span."""
        audio = self._audio
        befores = np.broadcast_to(window_start(first_frames, audio), clips.shape)
        width = padded_samples(round_up(math.ceil(span), block_samples(audio)), audio)
        samples = np.zeros((clips.size, width), np.int16)
        for row, clip, before in zip(samples, clips.tolist(), befores.tolist(), strict=True):
            place = max(0, -before)
            there = self._cache.part_of(clip, "audio", max(0, before), max(0, width - place))
            row[place : place + there.size] = there
        return samples


def filled_slots(token_lengths: IntArray, shape: Shape, shares: int) -> IntArray:
    """Index of each real token in its share's [clips, tokens], then -1 for empty slots."""
    slots = np.full((shares, shape.slots), -1, np.int32)
    is_token = np.arange(shape.tokens) < token_lengths[:, None]
    for share, rows in enumerate(is_token.reshape(shares, -1)):
        places = np.flatnonzero(rows)
        slots[share, : places.size] = places
    return slots


def blank_batch(shape: Shape, shares: int, config: XTTSConfig) -> Batch:
    """A batch of zeros with the maximum lengths of a shape."""
    size, n_mels = shape.batch, config.data.n_mels
    lengths = np.full(size, min(shape.tokens, shape.slots * shares // size), np.int32)
    reference_frames = config.model.reference_frames
    return Batch(
        token_ids=np.full((size, shape.tokens), PADDING_ID, np.int32),
        token_lengths=lengths,
        slots=filled_slots(lengths, shape, shares),
        mel=np.zeros((size, shape.frames, n_mels), np.float32),
        mel_lengths=np.full(size, shape.frames, np.int32),
        reference=np.zeros((size, reference_frames, n_mels), np.float32),
        reference_lengths=np.full(size, reference_frames, np.int32),
        language_ids=np.zeros(size, np.int32),
    )


def batch_signature(config: XTTSConfig, plan: ShapePlan | None = None) -> Batch:
    """Tensor specs of a batch: static if the plan has a single shape."""
    n_mels, reference_frames = config.data.n_mels, config.model.reference_frames
    if plan is None or plan.dynamic or len(plan.shapes) > 1:
        size = tokens = frames = slots = shares = None
    else:
        (size, tokens, frames, slots), shares = plan.shapes[0], plan.shares
    return Batch(
        token_ids=tf.TensorSpec([size, tokens], tf.int32),
        token_lengths=tf.TensorSpec([size], tf.int32),
        slots=tf.TensorSpec([shares, slots], tf.int32),
        mel=tf.TensorSpec([size, frames, n_mels], tf.float32),
        mel_lengths=tf.TensorSpec([size], tf.int32),
        reference=tf.TensorSpec([size, reference_frames, n_mels], tf.float32),
        reference_lengths=tf.TensorSpec([size], tf.int32),
        language_ids=tf.TensorSpec([size], tf.int32),
    )
