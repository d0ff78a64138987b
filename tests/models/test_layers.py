"""Blocks whose arithmetic was rearranged for speed, next to the formulas that they stand for."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.models.layers import ConvBlock, root_mean_square_norm, silu


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


def test_a_convolution_block_by_its_formula(randomized):
    block = randomized(ConvBlock(8, 3))
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
