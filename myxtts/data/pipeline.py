"""Feeds the model: batches of static shape, loaded ahead of use from the memory-mapped cache."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.cache import FeatureCache
from myxtts.data.lengths import IntArray
from myxtts.data.schedule import PlannedBatch, Schedule
from myxtts.data.shapes import Shape, ShapePlan
from myxtts.models.xtts import Batch
from myxtts.text.tokenizer import PADDING_ID, Tokenizer


class BatchLoader:
    """Copies the features of a planned batch into padded arrays. No TensorFlow per clip."""

    def __init__(self, cache: FeatureCache, tokenizer: Tokenizer, config: XTTSConfig) -> None:
        self._cache = cache
        self._n_mels = config.data.n_mels
        self._reference_frames = config.model.reference_frames
        # The cache numbers symbols and languages by itself; the run's tokenizer decides.
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
        cache, shape = self._cache, planned.shape
        token_ids = np.full((shape.batch, shape.tokens), PADDING_ID, np.int32)
        mel = np.full((shape.batch, shape.frames, self._n_mels), cache.mel_mean, np.float32)
        reference = np.full(
            (shape.batch, self._reference_frames, self._n_mels), cache.mel_mean, np.float32
        )
        reference_lengths = np.zeros(shape.batch, np.int32)
        for row, clip in enumerate(planned.clips):
            tokens, frames = self.token_ids(clip), cache.clip_mel(clip)
            token_ids[row, : len(tokens)] = tokens
            mel[row, : len(frames)] = frames
            other = cache.clip_mel(planned.references[row])
            slack = max(0, len(other) - self._reference_frames)
            start = int(planned.reference_starts[row] * (slack + 1))
            cut = other[start : start + self._reference_frames]
            reference[row, : len(cut)] = cut
            reference_lengths[row] = len(cut)
        records = cache.index[planned.clips]
        token_lengths = records["tokens_count"].astype(np.int32)
        return Batch(
            token_ids=token_ids,
            token_lengths=token_lengths,
            slots=filled_slots(token_lengths, shape, planned.shares),
            mel=mel,
            mel_lengths=records["mels_count"].astype(np.int32),
            reference=reference,
            reference_lengths=reference_lengths,
            language_ids=self._language_ids[records["language"]],
        )


def filled_slots(token_lengths: IntArray, shape: Shape, shares: int) -> IntArray:
    """The place of each real token in its share's [clips, tokens], and -1 behind the last."""
    slots = np.full((shares, shape.slots), -1, np.int32)
    is_token = np.arange(shape.tokens) < token_lengths[:, None]
    for share, rows in enumerate(is_token.reshape(shares, -1)):
        places = np.flatnonzero(rows)
        slots[share, : places.size] = places
    return slots


def blank_batch(shape: Shape, shares: int, config: XTTSConfig) -> Batch:
    """A batch of a shape with nothing in it, as long as the shape allows."""
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
    """Specification of a batch: of the one shape if the plan has only one, else of any."""
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


def feed(
    loader: BatchLoader,
    schedule: Schedule,
    config: XTTSConfig,
    first_step: int,
    last_step: int,
    *,
    worker: int = 0,
    workers: int = 1,
) -> Iterator[Batch]:
    """The batches of steps [first_step, last_step), up to data.buffer_size of them ahead.

    Of several machines each gets its own part of every batch.
    """
    signature = batch_signature(config)

    def load(step: np.int64) -> Batch:
        return loader.load(schedule.batch_at(int(step)).part(worker, workers))

    def load_in_graph(step: tf.Tensor) -> Batch:
        tensors = tf.numpy_function(load, [step], [spec.dtype for spec in signature])
        return Batch(
            *(
                tf.ensure_shape(tensor, spec.shape)
                for tensor, spec in zip(tensors, signature, strict=True)
            )
        )

    dataset = tf.data.Dataset.range(first_step, last_step)
    dataset = dataset.map(load_in_graph, num_parallel_calls=2, deterministic=True)
    dataset = dataset.prefetch(min(config.data.buffer_size, max(1, last_step - first_step)))
    return iter(dataset)
