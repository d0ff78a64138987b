"""Residual multi-head attention in the three forms that the model uses.

Between many positions and a few latents, the projections are applied to the latents. `(positions Q)
(latents K)^T` equals `positions (latents K Q^T)^T`, which saves the product of a large matrix with
a square one. The same holds for values and output.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.models.layers import (
    Packing,
    add_residual_scale,
    affine,
    product,
    root_mean_square_norm,
    scaled_weights,
)

# Added to the scores of padding, so that its attention weights are exactly zero.
_NEVER = -1e9
# Positions on either side that `LocalAttention` attends to.
LOCAL_REACH = 32


class _Attention(keras.layers.Layer):
    """Weights shared by all forms."""

    def __init__(
        self, width: int, heads: int, *, memory_width: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.heads = heads
        self.width = width
        self.memory_width = memory_width or width
        policy = self.dtype_policy
        self.query = keras.layers.Dense(width, use_bias=False, dtype=policy, name="query")
        self.key_value = keras.layers.Dense(
            2 * width, use_bias=False, dtype=policy, name="key_value"
        )
        self.output_projection = keras.layers.Dense(width, dtype=policy, name="output")

    def build(self, input_shape: Any = None) -> None:
        self.residual_scale = add_residual_scale(self)
        self.query.build((None, self.width))
        self.key_value.build((None, self.memory_width))
        self.output_projection.build((None, self.width))

    def _projected(self, mixed: tf.Tensor) -> tf.Tensor:
        """Compute the residual branch."""
        weights = scaled_weights(self.output_projection, self.residual_scale)
        return affine(mixed, weights, self.compute_dtype)

    @property
    def _query_kernel(self) -> tf.Tensor:
        # Scaled before the products, whose sums would otherwise overflow in float16.
        return self.query.kernel * (self.width // self.heads) ** -0.5


class SelfAttention(_Attention):
    """Tokens attend to the tokens of their own clip."""

    def call(self, values: tf.Tensor, packing: Packing) -> tf.Tensor:
        """Attend over packed `values` [slots, width]."""
        kernel = tf.concat([self._query_kernel, self.key_value.kernel], 1)
        projected = product(root_mean_square_norm(values), kernel, self.compute_dtype)
        # Each [heads, batch, tokens, channels].
        query, key, value = tf.split(packing.unpack_heads(projected, 3 * self.heads), 3)
        scores = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32)
        shares = tf.nn.softmax(scores + _masking(packing.mask))
        mixed = packing.pack_heads(tf.matmul(tf.cast(shares, value.dtype), value))
        return values + self._projected(mixed)


class LocalAttention(_Attention):
    """Positions attend to their neighbors, at most as far in long sentences as in training."""

    def call(self, values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Attend over `values` [batch, positions, width] with `mask` [batch, positions, 1]."""
        batch, positions, _ = tf.unstack(tf.shape(values))
        kernel = tf.concat([self._query_kernel, self.key_value.kernel], 1)
        projected = product(root_mean_square_norm(values), kernel, self.compute_dtype)
        projected = tf.reshape(projected, [batch, positions, 3 * self.heads, -1])
        # Each [batch, heads, positions, channels].
        query, key, value = tf.split(tf.transpose(projected, [0, 2, 1, 3]), 3, axis=1)
        scores = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32)
        index = tf.range(positions)
        is_far = tf.cast(tf.abs(index[:, None] - index) > LOCAL_REACH, tf.float32)
        scores += is_far * _NEVER + _masking(mask)[:, None]
        mixed = tf.matmul(tf.cast(tf.nn.softmax(scores), value.dtype), value)
        mixed = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [batch, positions, self.width])
        return values + self._projected(mixed)


class Memory(NamedTuple):
    """Latents with the projections of positions applied in advance, once for all positions."""

    key: tf.Tensor  # [batch, heads * tokens, width]
    value: tf.Tensor  # [batch, heads * tokens, width]
    bias: tf.Tensor  # [width]


class AttentionToLatents(_Attention):
    """Positions attend to a few latents of width `memory_width`."""

    def call(self, values: tf.Tensor, latents: tf.Tensor) -> tf.Tensor:
        """Attend from `values` [batch, positions, width] to `latents` [batch, tokens, width]."""
        return self.attend(values, self.memory(latents))

    def memory(self, latents: tf.Tensor) -> Memory:
        batch, dtype = tf.shape(latents)[0], self.compute_dtype
        rows = tf.reshape(latents, [-1, self.memory_width])
        rows = product(rows, self.key_value.kernel, dtype)
        key, value = tf.split(_heads_first(rows, 2 * self.heads), 2)
        query_kernel = tf.cast(_heads_first(self._query_kernel, self.heads), dtype)
        output = scaled_weights(self.output_projection, self.residual_scale)
        output_kernel = tf.cast(output.kernel, dtype)
        output_kernel = tf.reshape(output_kernel, [self.heads, -1, self.width])
        key = self._tokens_of_clips(tf.matmul(key, query_kernel, transpose_b=True), batch)
        value = self._tokens_of_clips(tf.matmul(value, output_kernel), batch)
        return Memory(key, value, output.bias)

    def attend(self, values: tf.Tensor, memory: Memory) -> tf.Tensor:
        normed = tf.cast(root_mean_square_norm(values), self.compute_dtype)
        scores = tf.cast(tf.matmul(normed, memory.key, transpose_b=True), tf.float32)
        batch, positions, slots = tf.unstack(tf.shape(scores))
        per_head = [batch, positions, self.heads, slots // self.heads]
        shares = tf.nn.softmax(tf.reshape(scores, per_head))
        shares = tf.cast(tf.reshape(shares, tf.shape(scores)), memory.value.dtype)
        branch = tf.cast(tf.matmul(shares, memory.value), tf.float32)
        return values + tf.nn.bias_add(branch, memory.bias)

    def _tokens_of_clips(self, of_heads: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
        """Reshape [heads, batch * tokens, width] to [batch, heads * tokens, width]."""
        parts = tf.unstack(of_heads, self.heads)
        return tf.concat([tf.reshape(part, [batch, -1, self.width]) for part in parts], 1)


class Resampler(_Attention):
    """A few learned latents, initially the same for every clip, attend to its positions."""

    def call(self, latents: tf.Tensor, values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Attend from `latents` [tokens, width] to `values` [batch, positions, width]."""
        tokens, batch = latents.shape[0], tf.shape(values)[0]
        kernels = tf.cast(_heads_first(self.key_value.kernel, 2 * self.heads), self.compute_dtype)
        key_kernel, value_kernel = tf.split(kernels, 2)
        normed = root_mean_square_norm(latents)
        query = _heads_first(product(normed, self._query_kernel, kernels.dtype), self.heads)
        query = tf.matmul(query, key_kernel, transpose_b=True)
        query = tf.reshape(query, [1, self.heads * tokens, self.width])
        memory = tf.cast(values, kernels.dtype)
        scores = tf.cast(tf.matmul(query, memory, transpose_b=True), tf.float32)
        shares = tf.nn.softmax(scores + _masking(mask))
        mixed = tf.matmul(tf.cast(shares, memory.dtype), memory)
        mixed = tf.reshape(mixed, [batch, self.heads, tokens, self.width])
        mixed = tf.matmul(mixed, value_kernel)
        mixed = tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [batch, tokens, self.width])
        return latents + self._projected(mixed)


def _heads_first(matrix: tf.Tensor, heads: int) -> tf.Tensor:
    """Reshape [rows, heads * channels] to [heads, rows, channels]."""
    split = tf.reshape(matrix, [-1, heads, matrix.shape[-1] // heads])
    return tf.transpose(split, [1, 0, 2])


def _masking(mask: tf.Tensor) -> tf.Tensor:
    """Turn a mask [batch, memory, 1] into [batch, 1, memory] to add to scores."""
    return (1.0 - tf.transpose(mask, [0, 2, 1])) * _NEVER
