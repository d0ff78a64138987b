"""Blocks whose arithmetic was rearranged for speed, beside the formulas that they stand for."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.models.layers import Attention, ConvBlock, root_mean_square_norm, silu


def plain_norm(values):
    return values * tf.math.rsqrt(tf.reduce_mean(tf.square(values), -1, keepdims=True) + 1e-6)


@pytest.mark.parametrize(
    ("ours", "plain"), [(root_mean_square_norm, plain_norm), (silu, tf.nn.silu)]
)
def test_values_and_gradients_are_those_of_the_formula(ours, plain):
    generator = np.random.default_rng(0)
    values, weights = (tf.constant(generator.normal(0, 3, (2, 5, 8)), tf.float32) for _ in range(2))
    results = []
    for function in (ours, plain):
        with tf.GradientTape() as tape:
            tape.watch(values)
            result = function(values)
            loss = tf.reduce_sum(result * weights)
        results.append((result, tape.gradient(loss, values)))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def randomised(layer):
    layer.build()
    generator = np.random.default_rng(0)
    for variable in layer.trainable_variables:
        variable.assign_add(generator.normal(0, 0.3, variable.shape))
    return layer


def test_a_convolution_block_by_its_formula():
    block = randomised(ConvBlock(8, 3))
    generator = np.random.default_rng(1)
    values = generator.normal(size=(2, 6, 8)).astype(np.float32)
    scale, shift = generator.normal(size=(2, 2, 1, 8)).astype(np.float32)
    mask = np.ones((2, 6, 1), np.float32)
    mask[1, 4:] = 0
    kernel = np.asarray(block.kernel)[0, :, :, 0]
    padded = np.pad(values * mask, [(0, 0), (1, 1), (0, 0)])
    hidden = sum(padded[:, offset : offset + 6] * kernel[offset] for offset in range(3))
    hidden = np.asarray(plain_norm(hidden)) * (1 + scale) + shift
    hidden = tf.nn.silu(hidden @ block.expand.kernel.numpy() + block.expand.bias.numpy()).numpy()
    branch = hidden @ block.contract.kernel.numpy() + block.contract.bias.numpy()
    expected = values + branch * block.residual_scale.numpy()
    found = block(*map(tf.constant, (values, mask, scale, shift)))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_attention_by_its_formula():
    attention = randomised(Attention(8, 2, memory_width=6))
    generator = np.random.default_rng(1)
    values = generator.normal(size=(1, 5, 8)).astype(np.float32)
    memory = generator.normal(size=(1, 3, 6)).astype(np.float32)
    query = plain_norm(values)[0].numpy() @ attention.query.kernel.numpy()
    key, value = np.split(memory[0] @ attention.key_value.kernel.numpy(), 2, axis=-1)
    mixed = []
    for head in (slice(0, 4), slice(4, 8)):
        shares = tf.nn.softmax(query[:, head] @ key[:2, head].T / 2).numpy()
        mixed.append(shares @ value[:2, head])
    output = attention.output_projection
    branch = np.concatenate(mixed, -1) @ output.kernel.numpy() + output.bias.numpy()
    expected = values[0] + branch * attention.residual_scale.numpy()
    mask = tf.constant([[[1.0], [1.0], [0.0]]])  # the last of the memory is padding
    found = attention(tf.constant(values), tf.constant(memory), mask)
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-4)
