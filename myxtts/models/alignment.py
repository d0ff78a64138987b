"""Monotonic alignment search by dynamic programming, inside the compiled graph.

Assigns each mel position to a token, in order and without skipping any, so that the sum of scores
is maximal. The forward pass loops over positions, vectorised over batch and tokens; backtracking
follows the recorded decisions.
"""

from __future__ import annotations

import tensorflow as tf

# One iteration of a TensorFlow loop costs as much as several small ops, so unroll a few positions.
_STRIDE = 8
_UNREACHABLE = -1e9


def align(scores: tf.Tensor, token_lengths: tf.Tensor, position_lengths: tf.Tensor) -> tf.Tensor:
    """The best monotonic path as ones and zeros, [batch, positions, tokens].

    scores: [batch, positions, tokens], larger is better. Each clip needs at least as many
    positions as tokens. Beyond a clip's own length the path is all zeros.
    """
    scores = tf.stop_gradient(scores)
    batch, positions, tokens = tf.unstack(tf.shape(scores))
    strides = (positions + _STRIDE - 1) // _STRIDE
    padded = tf.pad(scores, [[0, 0], [0, strides * _STRIDE - positions], [0, 0]])
    scores_by_stride = tf.reshape(
        tf.transpose(padded, [1, 0, 2]), [strides, _STRIDE, batch, tokens]
    )
    totals = _best_totals(scores_by_stride)  # [positions, batch, tokens]
    # Whether the best path comes from the previous token; never past the end of the clip.
    came_from_before = tf.cast(totals[:, :, :-1] > totals[:, :, 1:], scores.dtype)
    within = tf.cast(tf.range(1, strides * _STRIDE + 1)[:, None] < position_lengths, scores.dtype)
    advance = tf.pad(came_from_before * within[:, :, None], [[0, 0], [0, 0], [1, 0]])
    last_token = tf.one_hot(token_lengths - 1, tokens, dtype=scores.dtype)
    path = _walk_back(tf.reshape(advance, [strides, _STRIDE, batch, tokens]), last_token)
    path = tf.transpose(path, [1, 0, 2])[:, :positions]
    return path * tf.sequence_mask(position_lengths, positions, scores.dtype)[:, :, None]


def _best_totals(scores_by_stride: tf.Tensor) -> tf.Tensor:
    """The best sum of scores of paths that end at each position and token."""
    strides, _, batch, tokens = tf.unstack(tf.shape(scores_by_stride))
    # Paths can only start in the first token: as if they came from a token before it at no
    # cost.
    start = tf.concat([tf.zeros([batch, 1]), tf.fill([batch, tokens - 1], _UNREACHABLE)], axis=1)

    def advance(index: tf.Tensor, total: tf.Tensor, record: tf.TensorArray) -> tuple:
        stride_scores = tf.unstack(scores_by_stride[index], _STRIDE)
        stride_totals = []
        for position_scores in stride_scores:
            total = total + position_scores
            stride_totals.append(total)
            from_before = tf.pad(total[:, :-1], [[0, 0], [1, 0]], constant_values=_UNREACHABLE)
            total = tf.maximum(total, from_before)
        return index + 1, total, record.write(index, tf.stack(stride_totals))

    record = tf.TensorArray(scores_by_stride.dtype, strides)
    _, _, record = tf.while_loop(
        lambda index, *_: index < strides, advance, (tf.constant(0), start, record)
    )
    return record.concat()


def _walk_back(advance_by_stride: tf.Tensor, last_token: tf.Tensor) -> tf.Tensor:
    """Backtracking: one-hot token of each position, from the last position to the first.

    advance_by_stride[p] says for each token whether the path that is in it at p + 1 was in the
    previous token at p.
    """
    strides = tf.shape(advance_by_stride)[0]

    def retreat(index: tf.Tensor, at: tf.Tensor, record: tf.TensorArray) -> tuple:
        stride_path = []
        for advance in reversed(tf.unstack(advance_by_stride[index], _STRIDE)):
            leaving = at * advance
            at = at - leaving + tf.pad(leaving[:, 1:], [[0, 0], [0, 1]])
            stride_path.append(at)
        return index - 1, at, record.write(index, tf.stack(stride_path[::-1]))

    record = tf.TensorArray(advance_by_stride.dtype, strides)
    _, _, record = tf.while_loop(
        lambda index, *_: index >= 0, retreat, (strides - 1, last_token, record)
    )
    return record.concat()
