"""Each form of attention next to the textbook's: project everything, then compare head by head."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.models.attention import AttentionToLatents, Resampler, SelfAttention
from myxtts.models.layers import Packing, root_mean_square_norm

WIDTH, HEADS = 8, 2


def random_values(*shape):
    return tf.constant(np.random.default_rng(shape).normal(size=shape), tf.float32)


def by_the_textbook(layer, values, memory):
    """Attend from `values` [positions, width] to `memory` [positions, its width]."""
    query = root_mean_square_norm(values) @ layer.query.kernel
    key, value = tf.split(memory @ layer.key_value.kernel, 2, axis=-1)
    mixed = []
    for head in range(HEADS):
        part = slice(head * WIDTH // HEADS, (head + 1) * WIDTH // HEADS)
        scores = query[:, part] @ tf.transpose(key[:, part]) / (WIDTH // HEADS) ** 0.5
        mixed.append(tf.nn.softmax(scores) @ value[:, part])
    output = layer.output_projection
    branch = tf.concat(mixed, -1) @ output.kernel + output.bias
    return values + branch * layer.residual_scale


def assert_same(layer, ours, textbook, inputs):
    """Assert that values and gradients for weights and inputs are equal."""
    sources = [*inputs, *(variable.value for variable in layer.trainable_variables)]
    found, expected = [], []
    for function, into in ((ours, found), (textbook, expected)):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            result = function()
            loss = tf.reduce_sum(tf.sin(result))
        into.extend([result, *tape.gradient(loss, sources)])
    for here, there in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(here), tf.convert_to_tensor(there), rtol=1e-3, atol=1e-4
        )


def test_tokens_attend_to_those_of_their_clip(randomized):
    layer = randomized(SelfAttention(WIDTH, HEADS))
    values = random_values(2, 5, WIDTH)
    lengths = [5, 3]
    # Eight tokens and an empty slot.
    packing = Packing(tf.constant([[0, 1, 2, 3, 4, 5, 6, 7, -1]]), tf.constant(lengths), 5)

    def ours():
        unpacked = packing.unpack(layer(packing.pack(values), packing=packing))
        return tf.concat([unpacked[0], unpacked[1, :3]], 0)

    def textbook():
        normed = root_mean_square_norm(values)
        clips = [
            by_the_textbook(layer, values[clip, :length], normed[clip, :length])
            for clip, length in enumerate(lengths)
        ]
        return tf.concat(clips, 0)

    assert_same(layer, ours, textbook, [values])


def test_positions_attend_to_latents(randomized):
    layer = randomized(AttentionToLatents(WIDTH, HEADS, memory_width=6))
    values, latents = random_values(2, 5, WIDTH), random_values(2, 3, 6)

    def textbook():
        pairs = zip(tf.unstack(values), tf.unstack(latents), strict=True)
        return tf.stack([by_the_textbook(layer, *pair) for pair in pairs])

    assert_same(layer, lambda: layer(values, latents), textbook, [values, latents])


@pytest.mark.parametrize("lengths", [[5, 5], [5, 2]])
def test_latents_attend_to_the_positions_of_each_clip(randomized, lengths):
    layer = randomized(Resampler(WIDTH, HEADS))
    latents, values = random_values(3, WIDTH), random_values(2, 5, WIDTH)
    mask = tf.sequence_mask(lengths, 5, tf.float32)[:, :, None]

    def textbook():
        return tf.stack(
            [
                by_the_textbook(layer, latents, values[clip, :length])
                for clip, length in enumerate(lengths)
            ]
        )

    assert_same(layer, lambda: layer(latents, values, mask), textbook, [latents, values])
