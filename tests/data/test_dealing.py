import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.data.sampling import (
    balanced_order,
    by_text_length,
    draw_rows,
    evened_out,
    room_of_shares,
    slots_of_share,
    split_by_weight,
    strata_by_row,
)

TOKENS = st.lists(st.integers(3, 200), min_size=1, max_size=60)


@settings(max_examples=80, deadline=None)
@given(TOKENS, st.integers(1, 9))
def test_every_clip_belongs_to_a_row(tokens, batch):
    token_counts = np.array(tokens, np.int32)
    clips = np.arange(token_counts.size, dtype=np.int32)[::-1]
    rows = strata_by_row(clips, token_counts, batch)
    assert len(rows) == batch
    together = np.concatenate(rows)
    assert set(together.tolist()) == set(clips.tolist())
    if clips.size >= batch:
        assert together.size == clips.size
        assert max(map(len, rows)) - min(map(len, rows)) <= 1


@settings(max_examples=80, deadline=None)
@given(TOKENS, st.sampled_from([(4, 1), (4, 2), (4, 4), (6, 3), (8, 2)]), st.integers(0, 9))
def test_no_draw_overflows_its_slots(tokens, batch_and_shares, seed):
    batch, shares = batch_and_shares
    token_counts = np.array(tokens, np.int32)
    rows = strata_by_row(np.arange(token_counts.size, dtype=np.int32), token_counts, batch)
    drawn = np.array([np.random.default_rng(seed).choice(row) for row in rows])
    totals = token_counts[drawn].reshape(shares, -1).sum(axis=1)
    assert totals.max() <= slots_of_share(rows, token_counts, shares)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 64))
def test_the_order_is_one_of_all_numbers(count):
    assert sorted(balanced_order(count)) == list(range(count))


def test_halves_and_quarters_weigh_the_same():
    order = np.array(balanced_order(16))
    for parts in (2, 4):
        sums = order.reshape(parts, -1).sum(axis=1)
        assert sums.max() - sums.min() <= 2


def test_the_bound_hardly_exceeds_the_mean():
    generator = np.random.default_rng(0)
    token_counts = generator.integers(60, 121, 1_000).astype(np.int32)
    rows = strata_by_row(np.arange(1_000, dtype=np.int32), token_counts, 16)
    assert slots_of_share(rows, token_counts, 1) < 1.03 * 16 * token_counts.mean()


@settings(max_examples=80, deadline=None)
@given(TOKENS, st.sampled_from([2, 4, 6, 8]), st.integers(0, 9))
def test_evening_out_moves_clips_and_overflows_nothing(tokens, batch, seed):
    generator = np.random.default_rng(seed)
    token_counts = np.array(tokens, np.int32)
    frame_counts = (token_counts * generator.uniform(4, 8, token_counts.size)).astype(np.int32)
    rows = strata_by_row(np.arange(token_counts.size, dtype=np.int32), token_counts, batch)
    room = room_of_shares(rows, token_counts)
    drawn = np.array([generator.choice(row) for row in rows])
    order = evened_out(drawn, frame_counts, token_counts, room)
    assert sorted(order) == sorted(drawn)
    for shares, slots in room.items():
        assert token_counts[order].reshape(shares, -1).sum(axis=1).max() <= slots

    def imbalance(clips):
        first, second = frame_counts[clips].reshape(2, -1).sum(axis=1, dtype=np.int64)
        return abs(first - second)

    assert imbalance(order) <= imbalance(drawn)


WEIGHTS = st.sampled_from([1e-6, 0.01, 0.5, 1.0, 2.0, 3.7, 100.0])


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(3, 200), WEIGHTS), min_size=1, max_size=60),
    st.integers(1, 9),
    st.integers(1, 20),
    st.floats(0, 1, exclude_max=True),
)
def test_each_row_hears_its_stratum_by_weight(clips_and_weights, batch, count, offset):
    token_counts, weights = (np.array(column) for column in zip(*clips_and_weights, strict=True))
    ordered = by_text_length(np.arange(weights.size), token_counts)
    strata = strata_by_row(np.arange(weights.size), token_counts, batch, weights)
    batches = draw_rows(ordered, weights[ordered], (count, batch), offset, np.random.default_rng(0))
    assert batches.shape == (count, batch)
    for row, stratum in zip(batches.T, strata, strict=True):
        assert set(row) <= set(stratum)
    copies = np.bincount(batches.ravel(), minlength=weights.size)
    expected = weights / weights.sum() * count * batch
    assert (np.abs(copies - expected) < 1 + 1e-9).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(WEIGHTS, min_size=1, max_size=30), st.integers(1, 200))
def test_parts_are_right_on_average(weights, total):
    weights = np.array(weights)
    offsets = (np.arange(500) + 0.5) / 500
    parts = np.array([split_by_weight(weights, total, offset) for offset in offsets])
    assert (parts.sum(axis=1) == total).all()
    np.testing.assert_allclose(parts.mean(axis=0), total * weights / weights.sum(), atol=0.01)
