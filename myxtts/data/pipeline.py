"""Feeds the model: batches of static shape, loaded ahead of use from the memory-mapped cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.cache import FeatureCache
from myxtts.data.schedule import PlannedBatch, Schedule
from myxtts.data.shapes import Shape
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
        return Batch(
            token_ids=token_ids,
            token_lengths=records["tokens_count"].astype(np.int32),
            mel=mel,
            mel_lengths=records["mels_count"].astype(np.int32),
            reference=reference,
            reference_lengths=reference_lengths,
            language_ids=self._language_ids[records["language"]],
        )


def batch_signature(config: XTTSConfig, shapes: Sequence[Shape] = ()) -> Batch:
    """Specification of a batch: of the one shape if there is only one, else of any length."""
    size, n_mels = config.data.batch_size, config.data.n_mels
    tokens, frames = (shapes[0].tokens, shapes[0].frames) if len(shapes) == 1 else (None, None)
    reference_frames = config.model.reference_frames
    return Batch(
        token_ids=tf.TensorSpec([size, tokens], tf.int32),
        token_lengths=tf.TensorSpec([size], tf.int32),
        mel=tf.TensorSpec([size, frames, n_mels], tf.float32),
        mel_lengths=tf.TensorSpec([size], tf.int32),
        reference=tf.TensorSpec([size, reference_frames, n_mels], tf.float32),
        reference_lengths=tf.TensorSpec([size], tf.int32),
        language_ids=tf.TensorSpec([size], tf.int32),
    )


def feed(
    loader: BatchLoader, schedule: Schedule, config: XTTSConfig, first_step: int, last_step: int
) -> Iterator[Batch]:
    """The batches of steps [first_step, last_step), up to data.buffer_size of them ahead."""
    signature = batch_signature(config)

    def load(step: np.int64) -> Batch:
        return loader.load(schedule.batch_at(int(step)))

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
