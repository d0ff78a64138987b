"""Building blocks of the encoders and the decoder.

Every layer declares the widths of its inputs and creates its weights in `build`. Otherwise Keras
infers them by tracing every unbuilt layer, which takes seconds.

In mixed precision, products over positions (nearly all of the work) and the ops between them use
the lower precision. Weights, the residual stream, mean squares and
softmax stay in float32, because sums of many small terms lose accuracy in lower precision.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

# Residual branches start small, so that a deep stack is initially close to the identity.
RESIDUAL_SCALE_AT_START = 0.2
_EPSILON = 1e-6


def with_gradient(
    function: Callable[[tf.Tensor], tuple[tf.Tensor, Any]],
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Apply `tf.custom_gradient` in graphs only, which is where training runs.

    In eager calls, as for a single sentence, the wrapper takes longer than the operation.
    """
    in_graphs = tf.custom_gradient(function)

    @functools.wraps(function)
    def call(values: tf.Tensor) -> tf.Tensor:
        return function(values)[0] if tf.executing_eagerly() else in_graphs(values)

    return call


def gradients_only(values: Sequence[tf.Tensor], gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return zero with the given gradients."""
    pull = tf.add_n(
        [
            tf.reduce_sum(value * tf.stop_gradient(gradient))
            for value, gradient in zip(values, gradients, strict=True)
        ]
    )
    return pull - tf.stop_gradient(pull)


def length_mask(lengths: tf.Tensor, size: Any) -> tf.Tensor:
    """Return a mask [batch, size, 1]: ones up to each length, then zeros."""
    return tf.sequence_mask(lengths, size, tf.float32)[:, :, None]


def masked_mean(values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Average [batch, positions, channels] over unmasked positions."""
    return tf.reduce_sum(values * mask, 1) / tf.maximum(tf.reduce_sum(mask, 1), 1.0)


@with_gradient
def root_mean_square_norm(values: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """Apply RMS norm without weights; scale and shift come from the conditioning."""
    power = tf.reduce_mean(tf.square(values), -1, keepdims=True)
    factor = tf.math.rsqrt(power + _EPSILON)
    normed = values * factor

    def gradient(of_normed: tf.Tensor) -> tf.Tensor:
        """Compute the gradient in half as many memory passes as TensorFlow's."""
        along = tf.reduce_mean(of_normed * normed, -1, keepdims=True)
        return factor * (of_normed - normed * along)

    return normed, gradient


@with_gradient
def silu(values: tf.Tensor) -> tuple[tf.Tensor, Any]:
    """Apply SiLU; unlike `tf.nn.silu`, keep the sigmoid instead of recomputing it."""
    gate = tf.sigmoid(values)
    gated = values * gate
    return gated, lambda of_gated: of_gated * (gate + gated * (1.0 - gate))


def stack_frames(frames: tf.Tensor, count: int) -> tf.Tensor:
    """Reshape [batch, frames, channels] to [batch, frames / count, count * channels]."""
    batch, length, channels = tf.unstack(tf.shape(frames))
    stacked = tf.reshape(frames, [batch, length // count, count * channels])
    return tf.ensure_shape(stacked, [None, None, count * frames.shape[-1]])


def add_residual_scale(layer: Any) -> keras.Variable:
    return layer.add_weight(
        name="residual_scale",
        shape=(layer.width,),
        initializer=keras.initializers.Constant(RESIDUAL_SCALE_AT_START),
        autocast=False,
    )


def product(values: tf.Tensor, kernel: tf.Tensor, dtype: str) -> tf.Tensor:
    """Multiply [..., inputs] by [inputs, outputs] in `dtype`."""
    values = tf.cast(values, dtype)
    rows = tf.reshape(values, [-1, kernel.shape[0]])
    result = tf.matmul(rows, tf.cast(kernel, dtype))
    before = values.shape[:-1]
    if before.rank == 1:
        return result
    shape = before.as_list() if before.is_fully_defined() else tf.unstack(tf.shape(values))[:-1]
    return tf.reshape(result, [*shape, kernel.shape[1]])


def dense(layer: Any, values: tf.Tensor) -> tf.Tensor:
    """Compute `layer(values)` in fewer operations than Keras."""
    outputs = product(values, layer.kernel, layer.compute_dtype)
    if layer.use_bias:
        outputs = tf.nn.bias_add(outputs, tf.cast(layer.bias, outputs.dtype))
    return layer.activation(outputs)


class Affine(NamedTuple):
    kernel: tf.Tensor  # [inputs, outputs]
    bias: tf.Tensor  # [outputs]


def scaled_weights(layer: Any, scale: Any) -> Affine:
    """Return the weights of `layer(values) * scale`, which is cheaper than scaling values."""
    return Affine(layer.kernel * scale, layer.bias * scale)


def affine(values: tf.Tensor, weights: Affine, dtype: str) -> tf.Tensor:
    """Apply an affine map in float32, with the product in `dtype`."""
    return tf.nn.bias_add(tf.cast(product(values, weights.kernel, dtype), tf.float32), weights.bias)


class Packing:
    """Converts between padded [batch, tokens, channels] and packed [slots, channels].

    `slots` [shares, slots per share] holds the index of each slot's token in the share's [clips,
    tokens], or -1 for an empty slot. Clips are split evenly over the shares, in order, and tokens
    keep their order. Both directions are gathers, and each is the gradient of the other, so no
    scatter is needed. `mask` [batch, tokens, 1] is one for real tokens.
    """

    def __init__(self, slots: tf.Tensor, lengths: tf.Tensor, tokens: Any) -> None:
        shares, share_slots = tf.unstack(tf.shape(slots))
        clips = tf.shape(lengths)[0] // shares
        first_place = tf.range(shares)[:, None] * clips * tokens
        self._filled = tf.cast(tf.reshape(slots >= 0, [-1, 1]), tf.float32)
        self._place_of_slot = tf.reshape(tf.maximum(slots, 0) + first_place, [-1])
        starts = tf.cumsum(tf.reshape(lengths, [shares, clips]), axis=1, exclusive=True)
        starts += tf.range(shares)[:, None] * share_slots
        self._slot_of_place = tf.reshape(starts, [-1, 1]) + tf.range(tokens)
        self._slot_of_place = tf.minimum(self._slot_of_place, shares * share_slots - 1)
        self.mask = tf.sequence_mask(lengths, tokens, tf.float32)[:, :, None]

    def pack(self, values: tf.Tensor) -> tf.Tensor:
        """Pack [batch, tokens, channels] into [slots, channels], with zeros in empty slots."""
        return self.pack_heads(tf.expand_dims(values, 0))

    def unpack(self, values: tf.Tensor) -> tf.Tensor:
        """Unpack [slots, channels] to [batch, tokens, channels], with zeros in the padding."""
        return tf.squeeze(self.unpack_heads(values, 1), 0)

    def pack_heads(self, values: tf.Tensor) -> tf.Tensor:
        """Pack [heads, batch, tokens, channels] into [slots, heads * channels]."""
        heads = values.shape[0]
        function = with_gradient(
            lambda inputs: (self._pack(inputs), lambda given: self._unpack(given, heads))
        )
        return function(values)

    def unpack_heads(self, values: tf.Tensor, heads: int) -> tf.Tensor:
        """Unpack [slots, heads * channels] to [heads, batch, tokens, channels]."""
        return with_gradient(lambda inputs: (self._unpack(inputs, heads), self._pack))(values)

    def pack_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """Pack ids [batch, tokens] into [slots]; empty slots get an arbitrary id."""
        return tf.gather(tf.reshape(ids, [-1]), self._place_of_slot)

    def _pack(self, values: tf.Tensor) -> tf.Tensor:
        heads, channels = values.shape[0], values.shape[-1]
        first_places = tf.range(heads) * tf.size(self._slot_of_place)
        rows = tf.reshape(values, [-1, channels])
        packed = tf.gather(rows, self._place_of_slot[:, None] + first_places)
        packed = tf.reshape(packed, [-1, heads * channels])
        return packed * tf.cast(self._filled, values.dtype)

    def _unpack(self, values: tf.Tensor, heads: int) -> tf.Tensor:
        rows = tf.reshape(values, [-1, values.shape[-1] // heads])
        head = tf.range(heads)[:, None, None]
        unpacked = tf.gather(rows, self._slot_of_place * heads + head)
        return unpacked * tf.cast(self.mask, values.dtype)


def slots_of(token_lengths: tf.Tensor, tokens: Any) -> tf.Tensor:
    """Return slots [1, batch * tokens] of texts padded to `tokens`, as a single share."""
    is_token = tf.reshape(tf.sequence_mask(token_lengths, tokens), [-1])
    places = tf.argsort(tf.cast(~is_token, tf.int32), stable=True)
    return tf.where(tf.range(tf.size(places)) < tf.reduce_sum(token_lengths), places, -1)[None]


class ConvBlock(keras.layers.Layer):
    """Residual block: depthwise convolution, conditioned norm, two-layer MLP (as in ConvNeXt)."""

    def __init__(self, width: int, kernel_positions: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.width = width
        self.kernel_positions = kernel_positions
        policy = self.dtype_policy
        self.expand = keras.layers.Dense(4 * width, activation=silu, dtype=policy, name="expand")
        self.contract = keras.layers.Dense(width, dtype=policy, name="contract")

    def build(self, input_shape: Any = None) -> None:
        self.kernel = self.add_weight(
            name="depthwise_kernel",
            shape=(1, self.kernel_positions, self.width, 1),
            initializer=keras.initializers.RandomNormal(stddev=self.kernel_positions**-0.5),
            autocast=False,
        )
        self.residual_scale = add_residual_scale(self)
        self.expand.build((None, self.width))
        self.contract.build((None, 4 * self.width))

    def contraction(self) -> Affine:
        """Return the last layer of the MLP, scaled like the residual branch."""
        return scaled_weights(self.contract, self.residual_scale)

    def call(
        self,
        values: tf.Tensor,
        mask: tf.Tensor,
        scale: tf.Tensor,
        shift: tf.Tensor,
        contraction: Affine | None = None,
    ) -> tf.Tensor:
        """Transform `values` [batch, positions, width]; scale and shift [batch, 1, width].

        `contraction` is the last layer if it has been computed already.
        """
        hidden = self._convolve(values * mask, scale, shift)
        return self._add_perceptron(values, hidden, contraction)

    def call_whole(self, values: tf.Tensor) -> tf.Tensor:
        """Transform values without padding or conditioning."""
        return self._add_perceptron(values, self._convolve(values, 0.0, 0.0))

    def call_packed(
        self, values: tf.Tensor, packing: Packing, scale: tf.Tensor, shift: tf.Tensor
    ) -> tf.Tensor:
        """Transform packed `values` [slots, width]; scale and shift [batch, 1, width]."""
        hidden = packing.pack(self._convolve(packing.unpack(values), scale, shift))
        return self._add_perceptron(values, hidden)

    def _convolve(self, values: tf.Tensor, scale: Any, shift: Any) -> tf.Tensor:
        values = tf.cast(values, self.compute_dtype)
        kernel = tf.cast(tf.convert_to_tensor(self.kernel), self.compute_dtype)
        # The 2-D depthwise convolution is TensorFlow's fastest on CPUs.
        convolved = tf.nn.depthwise_conv2d(
            tf.expand_dims(values, 1), kernel, strides=[1, 1, 1, 1], padding="SAME"
        )
        normed = root_mean_square_norm(tf.cast(tf.squeeze(convolved, 1), tf.float32))
        return normed * (1.0 + scale) + shift

    def _add_perceptron(
        self, values: tf.Tensor, hidden: tf.Tensor, contraction: Affine | None = None
    ) -> tf.Tensor:
        expanded = dense(self.expand, hidden)
        contraction = contraction or self.contraction()
        return values + affine(expanded, contraction, self.contract.compute_dtype)


class Modulation(keras.layers.Layer):
    """Scale and shift for every block of a stack, from one conditioning vector.

    One zero-initialized matrix serves all blocks, so initially the conditioning has no effect.
    """

    def __init__(self, width: int, blocks: int, *, condition_width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.blocks = blocks
        self.condition_width = condition_width
        self.project = keras.layers.Dense(
            2 * blocks * width, kernel_initializer="zeros", name="project"
        )

    def build(self, input_shape: Any = None) -> None:
        self.project.build((None, self.condition_width))

    def call(self, condition: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Project [batch, channels] to (scale, shift) per block, each [batch, 1, width]."""
        parts = tf.split(dense(self.project, silu(condition))[:, None], 2 * self.blocks, axis=-1)
        return list(zip(parts[::2], parts[1::2], strict=True))
