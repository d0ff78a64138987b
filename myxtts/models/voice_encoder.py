"""Voice encoder: reference audio to one global vector and a few latents."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.config.config import VOICE_STEP_FRAMES, ModelConfig
from myxtts.models.attention import Resampler
from myxtts.models.layers import (
    ConvBlock,
    Modulation,
    length_mask,
    masked_mean,
    root_mean_square_norm,
    stack_frames,
)


class Voice(NamedTuple):
    vector: tf.Tensor  # [batch, voice_width]
    latents: tf.Tensor  # [batch, voice_latents, voice_width]


class VoiceEncoder(keras.layers.Layer):
    def __init__(self, model: ModelConfig, n_mels: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.sizes = model
        self.n_mels = n_mels
        width, policy = model.voice_width, self.dtype_policy
        self.input_projection = keras.layers.Dense(width, dtype=policy, name="input")
        self.blocks = [
            ConvBlock(width, model.kernel_positions, dtype=policy, name=f"block_{index}")
            for index in range(model.voice_blocks)
        ]
        self.vector_projection = keras.layers.Dense(width, name="vector")
        self.resampler = Resampler(width, model.attention_heads, dtype=policy, name="resampler")
        self.latent_modulation = Modulation(
            width, 1, condition_width=width, name="latent_modulation"
        )
        self.latent_block = ConvBlock(width, 1, dtype=policy, name="latent_block")

    def build(self, input_shape: Any = None) -> None:
        self.latents = self.add_weight(
            name="latents",
            shape=(self.sizes.voice_latents, self.sizes.voice_width),
            initializer=keras.initializers.RandomNormal(stddev=1.0),
            autocast=False,
        )
        self.input_projection.build((None, VOICE_STEP_FRAMES * self.n_mels))
        self.vector_projection.build((None, self.sizes.voice_width))
        parts: tuple[Any, ...] = (
            *self.blocks,
            self.resampler,
            self.latent_modulation,
            self.latent_block,
        )
        for part in parts:
            part.build()

    def call(self, reference: tf.Tensor, reference_lengths: tf.Tensor) -> Voice:
        """Encode a normalized mel [batch, frames, mels] whose frames are a multiple of four."""
        steps = stack_frames(reference, VOICE_STEP_FRAMES)
        step_lengths = tf.maximum(reference_lengths // VOICE_STEP_FRAMES, 1)
        mask = length_mask(step_lengths, tf.shape(steps)[1])
        values = tf.cast(self.input_projection(steps), tf.float32)
        neutral = tf.zeros([1, 1, values.shape[-1]])
        for block in self.blocks:
            values = block(values, mask, neutral, neutral)
        values = root_mean_square_norm(values)
        vector = self.vector_projection(masked_mean(values, mask))
        latents = self.resampler(tf.convert_to_tensor(self.latents), values, mask)
        ((scale, shift),) = self.latent_modulation(vector)
        latents = self.latent_block(latents, tf.ones([1, 1, 1]), scale, shift)
        return Voice(vector, latents)
