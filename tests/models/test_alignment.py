import functools

import numpy as np
import pytest
import tensorflow as tf

from myxtts.models.alignment import align


def plain_search(scores: np.ndarray, skippable: np.ndarray) -> np.ndarray:
    """Return the textbook dynamic program, cell by cell, on [positions, tokens]."""
    positions, tokens = scores.shape
    best = np.full((positions, tokens), -np.inf, np.float32)
    best[0, 0] = scores[0, 0]
    for position in range(1, positions):
        for token in range(tokens):
            stay = best[position - 1, token]
            move = best[position - 1, token - 1] if token else -np.inf
            skips = token > 1 and skippable[token - 1]
            skip = best[position - 1, token - 2] if skips else -np.inf
            best[position, token] = max(stay, move, skip) + scores[position, token]
    path = np.zeros((positions, tokens), np.float32)
    token = tokens - 1
    for position in range(positions - 1, -1, -1):
        path[position, token] = 1
        if not position:
            continue
        before = best[position - 1]
        if (
            token > 1
            and skippable[token - 1]
            and before[token - 2] > max(before[token - 1 : token + 1])
        ):
            token -= 2
        elif token and before[token - 1] > before[token]:
            token -= 1
    return path


@functools.cache
def compiled(xla: bool):
    if xla:
        return tf.function(align, jit_compile=True, autograph=False)
    lengths = tf.TensorSpec([None], tf.int32)
    skippable = tf.TensorSpec([None, None], tf.float32)
    signature = [tf.TensorSpec([None, None, None], tf.float32), lengths, lengths, skippable]
    return tf.function(align, input_signature=signature, autograph=False)


def random_case(generator, batch, max_tokens, max_positions):
    tokens = generator.integers(1, max_tokens + 1)
    positions = generator.integers(tokens, max_positions + 1)
    scores = generator.normal(size=(batch, positions, tokens)).astype(np.float32)
    token_lengths = generator.integers(1, tokens + 1, batch).astype(np.int32)
    position_lengths = generator.integers(token_lengths, positions + 1).astype(np.int32)
    return scores, token_lengths, position_lengths


def check(case, xla, skippable=None):
    scores, token_lengths, position_lengths = case
    skippable = np.zeros(scores.shape[::2], np.float32) if skippable is None else skippable
    path = compiled(xla)(*case, skippable).numpy()
    for row, (tokens, positions) in enumerate(zip(token_lengths, position_lengths, strict=True)):
        expected = np.zeros_like(scores[row])
        expected[:positions, :tokens] = plain_search(
            scores[row, :positions, :tokens], skippable[row]
        )
        np.testing.assert_array_equal(path[row], expected)
        needed = (skippable[row, :tokens] == 0).nonzero()[0]
        assert path[row].sum(0)[needed].min() >= 1  # no other token is skipped
        assert path[row].sum() == positions  # durations sum to the length


@pytest.mark.parametrize("seed", range(60))
def test_equals_the_plain_search(seed):
    generator = np.random.default_rng(seed)
    check(random_case(generator, 5, 14, 45), xla=False)


@pytest.mark.parametrize("seed", range(20))
def test_silent_tokens_are_skipped_where_that_is_better(seed):
    generator = np.random.default_rng(2_000 + seed)
    case = random_case(generator, 5, 14, 45)
    scores, token_lengths, _ = case
    skippable = np.zeros(scores.shape[::2], np.float32)
    for row, tokens in enumerate(token_lengths):
        skippable[row, 2 : tokens - 1 : 3] = 1.0
    check(case, xla=False, skippable=skippable)


@pytest.mark.parametrize("seed", range(2))
def test_equals_the_plain_search_with_xla(seed):
    generator = np.random.default_rng(1_000 + seed)
    check(random_case(generator, 60, 10, 30), xla=True)


@pytest.mark.parametrize(
    ("tokens", "positions"), [(1, 1), (1, 9), (7, 7), (8, 8), (3, 16), (3, 17), (60, 200)]
)
def test_edges_of_every_shape(tokens, positions):
    generator = np.random.default_rng(tokens * 1_000 + positions)
    scores = generator.normal(size=(2, positions, tokens)).astype(np.float32)
    lengths = np.full(2, tokens, np.int32), np.full(2, positions, np.int32)
    check((scores, *lengths), xla=False)


def test_large_scores_do_not_drown_the_choice():
    generator = np.random.default_rng(3)
    scores = (generator.normal(size=(3, 40, 8)) * 1_000 - 30_000).astype(np.float32)
    check((scores, np.full(3, 8, np.int32), np.full(3, 40, np.int32)), xla=False)


def test_no_gradient_flows_through_the_search():
    scores = tf.Variable(np.random.default_rng(0).normal(size=(1, 6, 3)).astype(np.float32))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(align(scores, tf.constant([3]), tf.constant([6])))
    assert tape.gradient(total, scores) is None
