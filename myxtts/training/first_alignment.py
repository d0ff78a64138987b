"""Estimates the mean mel and duration of each symbol before the first step.

A model trained from scratch spends much of its training finding out where symbols begin and end.
Alternating between aligning the clips to one mean mel per symbol and averaging the aligned frames
(hard EM) finds most of that in seconds. It starts from equal durations, or from the symbols that
the model already knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.batch import Batch, BatchLoader, batch_signature
from myxtts.data.schedule import Schedule
from myxtts.models.alignment import align
from myxtts.models.layers import stack_frames
from myxtts.models.xtts import (
    SHORTEST_DURATION,
    XTTS,
    alignment_scores,
    spread_path,
    token_ends,
)

_ROUNDS = 8
_MOST_CLIPS = 1_000


def set_symbol_means(
    model: XTTS,
    loader: BatchLoader,
    schedule: Schedule,
    config: XTTSConfig,
    symbols: Sequence[int],
) -> None:
    """Sets the mean mels and log-durations of these symbols in the model's text encoder.

    The other symbols keep theirs and anchor the alignment. A symbol that does not occur keeps its
    values.
    """
    count = min(schedule.batches_per_epoch, -(-_MOST_CLIPS // config.clips_per_step))
    batches = [loader.load(schedule.batch_at(index)) for index in range(count)]
    text = model.text_encoder
    means, log_durations = text.symbol_mean_mel.embeddings, text.symbol_log_duration.embeddings
    collect = _compile_collection(model, batch_signature(config))
    wanted = np.isin(np.arange(means.shape[0]), symbols)
    for round_number in range(_ROUNDS):
        mel_sums = np.zeros(means.shape)
        log_duration_sums = np.zeros(means.shape[0])
        position_counts = np.zeros(means.shape[0])
        token_counts = np.zeros(means.shape[0])
        for batch in batches:
            parts = collect(batch, tf.constant(round_number == 0 and wanted.all()))
            mel_sum, position_count, log_duration_sum, token_count = (
                part.numpy() for part in parts
            )
            mel_sums += mel_sum
            position_counts += position_count
            log_duration_sums += log_duration_sum
            token_counts += token_count
        found = wanted & (position_counts > 0)
        for table, sums, counts in (
            (means, mel_sums, position_counts),
            (log_durations, log_duration_sums[:, None], token_counts),
        ):
            rows = table.numpy().copy()
            rows[found] = (sums[found] / counts[found, None]).astype(np.float32)
            table.assign(rows)


def _compile_collection(model: XTTS, signature: Batch) -> Any:
    symbols = model.text_encoder.symbol_mean_mel.input_dim
    per_position = model.sizes.frames_per_position

    def collect(batch: Batch, evenly: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Sums per symbol of mels, positions, log-durations and occurrences."""
        target = stack_frames(model.normalized(batch.mel), per_position)
        lengths = batch.mel_lengths // per_position
        mean_mel = model.text_encoder.symbol_mean_mel(batch.token_ids)
        scores = tf.where(
            evenly,
            _closeness_to_diagonal(target, batch.token_ids, lengths, batch.token_lengths),
            alignment_scores(mean_mel, target),
        )
        path = align(scores, batch.token_lengths, lengths)
        ends = token_ends(batch, lengths, tf.cumsum(tf.reduce_sum(path, 1), axis=1))
        path = spread_path(ends, tf.shape(target)[1])
        durations = tf.reduce_sum(path, 1)  # [batch, tokens]
        per_token = tf.matmul(path, target, transpose_a=True)  # [batch, tokens, channels]
        is_token = tf.sequence_mask(batch.token_lengths, tf.shape(durations)[1])
        present = tf.cast(is_token, tf.float32)
        log_durations = tf.math.log(tf.maximum(durations, SHORTEST_DURATION)) * present
        ids = tf.reshape(batch.token_ids, [-1])

        def by_symbol(values: tf.Tensor) -> tf.Tensor:
            flat = tf.reshape(values, [tf.size(ids), *values.shape[2:]])
            return tf.math.unsorted_segment_sum(flat, ids, symbols)

        return (
            by_symbol(per_token),
            by_symbol(durations),
            by_symbol(log_durations),
            by_symbol(present),
        )

    return tf.function(
        collect, input_signature=[signature, tf.TensorSpec([], tf.bool)], autograph=False
    )


def _closeness_to_diagonal(
    target: tf.Tensor, token_ids: tf.Tensor, lengths: tf.Tensor, token_lengths: tf.Tensor
) -> tf.Tensor:
    """Scores whose best path gives every token the same duration, [batch, positions, tokens]."""
    positions = tf.range(tf.shape(target)[1], dtype=tf.float32)[None, :, None] + 0.5
    tokens = tf.range(tf.shape(token_ids)[1], dtype=tf.float32)[None, None] + 0.5
    share_of_time = positions / tf.cast(lengths, tf.float32)[:, None, None]
    share_of_tokens = tokens / tf.cast(token_lengths, tf.float32)[:, None, None]
    return -tf.abs(share_of_time - share_of_tokens)
