"""Frame encoder: from the symbols at each position to a hidden state and the expected mel.

It runs once per sentence, while the decoder runs at every sampling step. Blocks work at three
rates, as in a U-Net: consonants need the full rate, and context, rhythm and voice the lower ones.
Each position of the lowest rate also attends to its surroundings.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.config.config import ModelConfig
from myxtts.models.attention import AttentionToLatents, LocalAttention
from myxtts.models.layers import (
    ConvBlock,
    Modulation,
    add_residual_scale,
    dense,
    root_mean_square_norm,
    stack_frames,
)
from myxtts.models.voice_encoder import Voice

# How often the rate is halved in each group of blocks: 43, 21, 11, 21, 43 positions a second.
_HALVINGS = (0, 1, 2, 1, 0)
_LOWEST = max(_HALVINGS)


class EncodedFrames(NamedTuple):
    states: tf.Tensor  # [batch, positions, frame_width]
    mel: tf.Tensor  # [batch, positions, channels of one position], normalized


class FrameEncoder(keras.layers.Layer):
    def __init__(self, model: ModelConfig, inputs: int, mel_channels: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.sizes = model
        self.inputs = inputs
        width, policy = model.frame_width, self.dtype_policy
        blocks = model.frame_blocks
        self.input_projection = keras.layers.Dense(width, dtype=policy, name="input")
        self.modulation = Modulation(
            width,
            len(_HALVINGS) * blocks + 1,
            condition_width=model.voice_width,
            name="modulation",
        )
        self.voice_attentions = [
            AttentionToLatents(
                width,
                model.attention_heads,
                memory_width=model.voice_width,
                dtype=policy,
                name=f"voice_attention_{group}",
            )
            for group in range(len(_HALVINGS))
        ]
        self.attentions = [
            LocalAttention(width, model.attention_heads, dtype=policy, name=f"attention_{index}")
            for index in range(blocks)
        ]
        # One flat list, because tf.saved_model does not find nested ones.
        self.blocks = [
            ConvBlock(
                width, model.kernel_positions, dtype=policy, name=f"group_{group}_block_{index}"
            )
            for group in range(len(_HALVINGS))
            for index in range(blocks)
        ]
        self.downs = [Downsampling(width, dtype=policy, name=f"down_{i}") for i in range(_LOWEST)]
        self.ups = [Upsampling(width, dtype=policy, name=f"up_{i}") for i in range(_LOWEST)]
        self.mel_projection = keras.layers.Dense(
            mel_channels, kernel_initializer="zeros", name="mel"
        )

    def build(self, input_shape: Any = None) -> None:
        parts: tuple[Any, ...] = (
            *self.blocks,
            *self.voice_attentions,
            *self.attentions,
            *self.downs,
            *self.ups,
            self.modulation,
        )
        for part in parts:
            part.build()
        self.input_projection.build((None, self.inputs))
        self.mel_projection.build((None, self.sizes.frame_width))

    def call(
        self, spread: tf.Tensor, mean_mel: tf.Tensor, mask: tf.Tensor, voice: Voice
    ) -> EncodedFrames:
        """Encode `spread` [batch, positions, inputs] with `mask` [batch, positions, 1]."""
        positions = tf.shape(spread)[1]
        padding = [[0, 0], [0, -positions % (1 << _LOWEST)], [0, 0]]
        spread, mask = tf.pad(spread, padding), tf.pad(mask, padding)
        masks = [mask]
        for _ in range(_LOWEST):
            masks.append(tf.reduce_max(stack_frames(masks[-1], 2), -1, keepdims=True))
        modulations = iter(self.modulation(voice.vector))
        values = tf.cast(dense(self.input_projection, spread), tf.float32)
        skipped = []
        level = 0
        blocks = iter(self.blocks)
        for halvings, voice_attention in zip(_HALVINGS, self.voice_attentions, strict=True):
            if halvings > level:
                skipped.append(values)
                values = self.downs[level](values * masks[level])
            elif halvings < level:
                values = self.ups[halvings](values, skipped.pop())
            level = halvings
            values = voice_attention(values, voice.latents)
            for index in range(self.sizes.frame_blocks):
                if level == _LOWEST:
                    values = self.attentions[index](values, masks[level])
                values = next(blocks)(values, masks[level], *next(modulations))
        scale, shift = next(modulations)
        states = root_mean_square_norm(values)[:, :positions] * (1.0 + scale) + shift
        return EncodedFrames(states, mean_mel + self.mel_projection(states))


class Downsampling(keras.layers.Layer):
    """Merges pairs of positions."""

    def __init__(self, width: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.width = width
        self.project = keras.layers.Dense(
            width, use_bias=False, dtype=self.dtype_policy, name="project"
        )

    def build(self, input_shape: Any = None) -> None:
        self.project.build((None, 2 * self.width))

    def call(self, values: tf.Tensor) -> tf.Tensor:
        return tf.cast(dense(self.project, stack_frames(values, 2)), tf.float32)


class Upsampling(keras.layers.Layer):
    """Splits each position into two and adds the skip connection from before the lower rate."""

    def __init__(self, width: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.width = width
        self.project = keras.layers.Dense(
            2 * width, use_bias=False, dtype=self.dtype_policy, name="project"
        )

    def build(self, input_shape: Any = None) -> None:
        self.residual_scale = add_residual_scale(self)
        self.project.build((None, self.width))

    def call(self, values: tf.Tensor, skipped: tf.Tensor) -> tf.Tensor:
        branch = dense(self.project, root_mean_square_norm(values))
        branch = tf.reshape(tf.cast(branch, tf.float32), tf.shape(skipped))
        return skipped + self.residual_scale * branch
