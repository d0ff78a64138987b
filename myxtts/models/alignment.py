"""Monotonic alignment search by dynamic programming, inside the compiled graph.

Assigns each mel position to a token so that the sum of scores is maximal. Tokens keep their order,
and only those that may be silent can be skipped. The forward pass loops over positions, vectorized
over
batch and tokens; backtracking follows the recorded decisions.
"""

from __future__ import annotations

import tensorflow as tf

# One iteration of a TensorFlow loop costs as much as several small ops, so unroll a few positions.
_STRIDE = 8
_UNREACHABLE = -1e9


def align(
    scores: tf.Tensor,
    token_lengths: tf.Tensor,
    position_lengths: tf.Tensor,
    skippable: tf.Tensor | None = None,
) -> tf.Tensor:
    """Find the best monotonic path, as ones and zeros [batch, positions, tokens].

    scores: [batch, positions, tokens], larger is better. Each clip needs at least as many
    positions as tokens. Beyond a clip's own length the path is all zeros. `skippable` [batch,
    tokens] is one for tokens that may get no position, neither the first nor the last, and no two
    in a row.
    """
    scores = tf.stop_gradient(scores)
    batch, positions, tokens = tf.unstack(tf.shape(scores))
    strides = (positions + _STRIDE - 1) // _STRIDE
    padded = tf.pad(scores, [[0, 0], [0, strides * _STRIDE - positions], [0, 0]])
    scores_by_stride = tf.reshape(
        tf.transpose(padded, [1, 0, 2]), [strides, _STRIDE, batch, tokens]
    )
    if skippable is None:
        skippable = tf.zeros([batch, tokens])
    # Added to the totals of the token two back, unless the one in between is skippable.
    blocked = (1.0 - _shifted(skippable, 1)) * _UNREACHABLE
    totals = _best_totals(scores_by_stride, blocked)  # [positions, batch, tokens]
    # True where the best path comes from the previous token, or the one before that; never past the
    # end of the clip.
    from_before, from_two_before = _arrivals(totals, blocked)
    came_from_two_before = from_two_before > tf.maximum(totals, from_before)
    came_from_before = (from_before > totals) & ~came_from_two_before
    within = tf.range(1, strides * _STRIDE + 1)[:, None] < position_lengths
    advance, skip = (
        tf.reshape(
            tf.cast(came & within[:, :, None], scores.dtype), [strides, _STRIDE, batch, tokens]
        )
        for came in (came_from_before, came_from_two_before)
    )
    last_token = tf.one_hot(token_lengths - 1, tokens, dtype=scores.dtype)
    path = _walk_back(advance, skip, last_token)
    path = tf.transpose(path, [1, 0, 2])[:, :positions]
    return path * tf.sequence_mask(position_lengths, positions, scores.dtype)[:, :, None]


def _shifted(values: tf.Tensor, by: int, filling: float = 0.0) -> tf.Tensor:
    """Shift [..., tokens] to later tokens."""
    padding = [[0, 0]] * (values.shape.rank - 1)
    return tf.pad(values, [*padding, [by, 0]], constant_values=filling)[..., :-by]


def _arrivals(totals: tf.Tensor, blocked: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the totals one token back, and two back where the token in between may be silent."""
    return (
        _shifted(totals, 1, _UNREACHABLE),
        _shifted(totals, 2, _UNREACHABLE) + blocked,
    )


def _best_totals(scores_by_stride: tf.Tensor, blocked: tf.Tensor) -> tf.Tensor:
    """Return the best sum of scores of a path to each position and token."""
    strides, _, batch, tokens = tf.unstack(tf.shape(scores_by_stride))
    # Paths start in the first token, as if they came from a token before it at no cost.
    start = tf.concat([tf.zeros([batch, 1]), tf.fill([batch, tokens - 1], _UNREACHABLE)], axis=1)

    def advance(index: tf.Tensor, total: tf.Tensor, record: tf.TensorArray) -> tuple:
        stride_scores = tf.unstack(scores_by_stride[index], _STRIDE)
        stride_totals = []
        for position_scores in stride_scores:
            total = total + position_scores
            stride_totals.append(total)
            from_before, from_two_before = _arrivals(total, blocked)
            total = tf.maximum(tf.maximum(total, from_before), from_two_before)
        return index + 1, total, record.write(index, tf.stack(stride_totals))

    record = tf.TensorArray(scores_by_stride.dtype, strides)
    _, _, record = tf.while_loop(
        lambda index, *_: index < strides, advance, (tf.constant(0), start, record)
    )
    return record.concat()


def _walk_back(
    advance_by_stride: tf.Tensor, skip_by_stride: tf.Tensor, last_token: tf.Tensor
) -> tf.Tensor:
    """Backtrack from the last position to the first; return the one-hot token of each position.

    A path that is in a token at p + 1 was in the previous token at p where `advance_by_stride[p]`
    is true, and in the one before that where `skip_by_stride[p]` is true.
    """
    strides = tf.shape(advance_by_stride)[0]

    def retreat(index: tf.Tensor, at: tf.Tensor, record: tf.TensorArray) -> tuple:
        stride_path = []
        for advance, skip in zip(
            reversed(tf.unstack(advance_by_stride[index], _STRIDE)),
            reversed(tf.unstack(skip_by_stride[index], _STRIDE)),
            strict=True,
        ):
            leaving, skipping = at * advance, at * skip
            at = at - leaving - skipping
            at += tf.pad(leaving, [[0, 0], [0, 1]])[:, 1:]
            at += tf.pad(skipping, [[0, 0], [0, 2]])[:, 2:]
            stride_path.append(at)
        return index - 1, at, record.write(index, tf.stack(stride_path[::-1]))

    record = tf.TensorArray(advance_by_stride.dtype, strides)
    _, _, record = tf.while_loop(
        lambda index, *_: index >= 0, retreat, (strides - 1, last_token, record)
    )
    return record.concat()
