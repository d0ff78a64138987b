"""Assembles batches of static shape from the memory-mapped cache.

Vectorised over the batch: there is no Python loop over clips.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from numpy.lib.stride_tricks import sliding_window_view

from myxtts.audio.mel_geometry import padded_samples, span_samples, window_start
from myxtts.batch import Batch
from myxtts.config.config import XTTSConfig
from myxtts.data.features.augmentation import Augmentation, Changes, frames_at_speed
from myxtts.data.features.cache import FeatureCache
from myxtts.data.feeding.device_features import WaveformBatch, block_samples
from myxtts.data.lengths import IntArray, round_up
from myxtts.data.planning.schedule import PlannedBatch
from myxtts.data.planning.shapes import Shape, ShapePlan
from myxtts.errors import DataError
from myxtts.text.tokenizer import PADDING_ID, Tokenizer


class BatchLoader:
    """Copies the clips of a planned batch from the cache into padded arrays."""

    def __init__(self, cache: FeatureCache, tokenizer: Tokenizer, config: XTTSConfig) -> None:
        self._cache = cache
        self._audio = config.audio
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
        places = records["tokens_start"][:, None] + np.arange(shape.tokens)
        stored = np.zeros((shape.batch, shape.tokens), np.int32)
        stored[inside] = self._cache.arrays["tokens"][places[inside]]
        known = ((stored >= 0) & (stored < len(self._token_ids))).all(axis=1)
        if not known.all():
            raise self._damaged(planned.clips[~known])
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
        stored = self._cache.arrays["mels"]
        index = np.arange(frames)
        starts = self._cache.index["mels_start"][clips] + first_frames
        # Frames past the end of a clip belong to the next clip and are blanked.
        places = np.minimum(starts[:, None] + index, len(stored) - 1)
        mels = stored[places].astype(np.float32)
        mels[index >= lengths[:, None]] = self._cache.mel_mean
        finite = np.isfinite(mels.sum(axis=(1, 2)))
        if not finite.all():
            raise self._damaged(clips[~finite])
        return mels

    def _samples(self, clips: IntArray, first_frames: Any, span: float) -> npt.NDArray[np.int16]:
        """Samples from half a window before the first frame to half a window after the span."""
        audio, records = self._audio, self._cache.index[clips]
        before = window_start(first_frames, audio)
        width = padded_samples(round_up(math.ceil(span), block_samples(audio)), audio)
        samples = _cut(self._cache.arrays["audio"], records["audio_start"] + before, width)
        place_in_clip = np.arange(width) + np.broadcast_to(before, clips.shape)[:, None]
        outside = (place_in_clip < 0) | (place_in_clip >= records["audio_count"][:, None])
        samples[outside] = 0
        return samples

    def _damaged(self, clips: IntArray) -> DataError:
        files = ", ".join(str(self._cache.audio_path(int(clip))) for clip in clips[:3])
        return DataError(
            f"{self._cache.folder}: the prepared features of {files} are damaged; delete this "
            "folder, it will be recreated"
        )


def _cut(
    values: npt.NDArray[np.int16], starts: npt.NDArray[np.int64], width: int
) -> npt.NDArray[np.int16]:
    """[rows, width]: slices of a long array; values outside of it are arbitrary."""
    if values.size < width:
        values = np.pad(values, (0, width - values.size))
    inside = np.clip(starts, 0, values.size - width)
    rows: npt.NDArray[np.int16] = sliding_window_view(values, width)[inside]
    # Only the first and the last clips of a corpus extend past the array.
    for row in np.flatnonzero(inside != starts):
        rows[row] = np.roll(rows[row], inside[row] - starts[row])
    return rows


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
