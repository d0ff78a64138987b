import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.data.batch import filled_slots
from myxtts.data.shapes import Shape
from myxtts.models.layers import Packing, slots_of

BATCHES = st.integers(1, 3).flatmap(
    lambda shares: st.tuples(
        st.just(shares),
        st.lists(st.integers(1, 6), min_size=shares, max_size=3 * shares).map(
            lambda lengths: lengths[: len(lengths) // shares * shares]
        ),
        st.integers(0, 3),
    )
)


def packing_of(lengths, shares, spare_slots):
    lengths = np.array(lengths, np.int32)
    tokens = int(lengths.max()) + 1
    slots = int(lengths.reshape(shares, -1).sum(axis=1).max()) + spare_slots
    shape = Shape(lengths.size, tokens, 8, slots)
    packing = Packing(
        tf.constant(filled_slots(lengths, shape, shares)), tf.constant(lengths), tokens
    )
    return packing, tokens, shares * slots


@settings(max_examples=40, deadline=None)
@given(BATCHES)
def test_real_tokens_survive_packing_and_nothing_else_does(batch):
    shares, lengths, spare = batch
    packing, tokens, slots = packing_of(lengths, shares, spare)
    values = np.random.default_rng(0).normal(size=(len(lengths), tokens, 2)).astype(np.float32)
    packed = packing.pack(tf.constant(values))
    assert packed.shape == (slots, 2)
    real = np.arange(tokens) < np.array(lengths)[:, None]
    assert np.count_nonzero(np.any(packed, axis=1)) == real.sum()
    np.testing.assert_array_equal(packing.unpack(packed), values * real[:, :, None])


@settings(max_examples=20, deadline=None)
@given(BATCHES)
def test_gradients_are_those_of_plain_gathers(batch):
    shares, lengths, spare = batch
    packing, tokens, _ = packing_of(lengths, shares, spare)
    values = tf.constant(np.random.default_rng(0).normal(size=(len(lengths), tokens, 2)))
    values = tf.cast(values, tf.float32)
    real = tf.sequence_mask(lengths, tokens, tf.float32)[:, :, None]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(values)
        there_and_back = tf.reduce_sum(tf.square(packing.unpack(tf.sin(packing.pack(values)))))
        plain = tf.reduce_sum(tf.square(tf.sin(values) * real))
    np.testing.assert_allclose(
        tape.gradient(there_and_back, values), tape.gradient(plain, values), atol=1e-6
    )


@settings(max_examples=20, deadline=None)
@given(BATCHES)
def test_heads_are_packed_as_if_each_were_alone(batch):
    shares, lengths, spare = batch
    packing, tokens, _ = packing_of(lengths, shares, spare)
    values = np.random.default_rng(0).normal(size=(3, len(lengths), tokens, 2)).astype(np.float32)
    alone = [packing.pack(tf.constant(head)).numpy() for head in values]
    packed = packing.pack_heads(tf.constant(values))
    np.testing.assert_array_equal(packed, np.concatenate(alone, axis=-1))
    unpacked = packing.unpack_heads(packed, 3)
    for head, there in zip(unpacked, alone, strict=True):
        np.testing.assert_array_equal(head, packing.unpack(tf.constant(there)))


def test_each_slot_gets_the_id_of_its_token():
    packing, _, _ = packing_of([2, 3], 1, 1)
    ids = packing.pack_ids(tf.constant([[7, 8, 0, 0], [9, 4, 3, 0]]))
    assert ids[:5].numpy().tolist() == [7, 8, 9, 4, 3]


@pytest.mark.parametrize("lengths", [(5,), (3, 3), (2, 5, 1)])
def test_slots_hold_the_tokens_of_padded_texts_in_their_order(lengths):
    tokens = max(lengths)
    ids = np.arange(len(lengths) * tokens).reshape(len(lengths), tokens)
    slots = slots_of(tf.constant(lengths), tokens)
    assert slots.shape == (1, ids.size)
    packing = Packing(slots, tf.constant(lengths), tokens)
    real = np.concatenate([row[:length] for row, length in zip(ids, lengths, strict=True)])
    np.testing.assert_array_equal(packing.pack_ids(tf.constant(ids))[: real.size], real)
    assert (slots.numpy()[0, real.size :] == -1).all()
