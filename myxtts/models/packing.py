"""Packs the texts of a batch without padding, for layers that treat each token by itself.

A quarter or more of a padded batch of texts is padding. Token-wise layers, which have nearly all
weights and work of the text encoder, run on packed tokens instead. The number of slots is part of
the static shape.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from myxtts.models.gradients import with_gradient


class Packing:
    """Converts between [batch, tokens, channels] and [slots, channels].

    `slots` [shares, slots per share] holds the index of each slot's token in the share's
    [clips, tokens], or -1 for an empty slot; clips are split evenly over the shares in order, and
    tokens keep their order. Both directions are gathers, and each is the other's gradient, so there
    is no scatter. `mask` [batch, tokens, 1] is one for real tokens.
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
        """[batch, tokens, channels] -> [slots, channels], zero in empty slots."""
        return self.pack_heads(tf.expand_dims(values, 0))

    def unpack(self, values: tf.Tensor) -> tf.Tensor:
        """[slots, channels] -> [batch, tokens, channels], zero in padding."""
        return tf.squeeze(self.unpack_heads(values, 1), 0)

    def pack_heads(self, values: tf.Tensor) -> tf.Tensor:
        """[heads, batch, tokens, channels] -> [slots, heads * channels]."""
        heads = values.shape[0]
        function = with_gradient(
            lambda inputs: (self._pack(inputs), lambda given: self._unpack(given, heads))
        )
        return function(values)

    def unpack_heads(self, values: tf.Tensor, heads: int) -> tf.Tensor:
        """[slots, heads * channels] -> [heads, batch, tokens, channels]."""
        return with_gradient(lambda inputs: (self._unpack(inputs, heads), self._pack))(values)

    def pack_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """[batch, tokens] -> [slots]; empty slots have an arbitrary id."""
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
    """Slots [1, batch * tokens] of texts padded to `tokens`, as a single share."""
    is_token = tf.reshape(tf.sequence_mask(token_lengths, tokens), [-1])
    places = tf.argsort(tf.cast(~is_token, tf.int32), stable=True)
    return tf.where(tf.range(tf.size(places)) < tf.reduce_sum(token_lengths), places, -1)[None]
