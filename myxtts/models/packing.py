"""Texts of a batch laid end to end, so that layers without a view to the side skip the padding.

A batch of texts is padded to its longest one, and a quarter of it or more is padding. Layers that
treat each token by itself, which hold nearly all weights and arithmetic of the text encoder, run
on the packed tokens instead. How many there are room for is part of the static shape.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class Packing:
    """Moves values between [batch, tokens, channels] and [slots, channels] and back.

    `slots` [shares, slots of a share] says which token stands in each slot, as its place in the
    share's [clips, tokens], or -1 for an empty slot; the clips are split evenly over the shares
    in their order, and tokens of a share keep their order. Both ways are gathers, and each is the
    other's gradient: nothing is scattered.
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
        self._inside = tf.sequence_mask(lengths, tokens, tf.float32)[:, :, None]
        self._tokens = tokens

    def pack(self, values: tf.Tensor) -> tf.Tensor:
        """[batch, tokens, channels] -> [slots, channels], zero in empty slots."""
        return tf.custom_gradient(lambda inputs: (self._pack(inputs), self._unpack))(values)

    def unpack(self, values: tf.Tensor) -> tf.Tensor:
        """[slots, channels] -> [batch, tokens, channels], zero in padding."""
        return tf.custom_gradient(lambda inputs: (self._unpack(inputs), self._pack))(values)

    def pack_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """[batch, tokens] -> [slots]; an empty slot has some id."""
        return tf.gather(tf.reshape(ids, [-1]), self._place_of_slot)

    def of_clips(self, values: tf.Tensor) -> tf.Tensor:
        """[batch, 1, channels] -> [slots, channels]: what each slot's clip has."""
        return self.pack(tf.repeat(values, self._tokens, axis=1))

    def _pack(self, values: tf.Tensor) -> tf.Tensor:
        flat = tf.reshape(values, [-1, values.shape[-1]])
        return tf.gather(flat, self._place_of_slot) * tf.cast(self._filled, values.dtype)

    def _unpack(self, values: tf.Tensor) -> tf.Tensor:
        return tf.gather(values, self._slot_of_place) * tf.cast(self._inside, values.dtype)


def slots_without_padding(token_ids: tf.Tensor) -> tf.Tensor:
    """Slots [1, batch * tokens] of texts that all fill their row."""
    return tf.range(tf.size(token_ids))[None]
