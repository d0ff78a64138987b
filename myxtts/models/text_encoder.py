"""Text encoder: a mean mel, a hidden state and a duration per token."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.config.config import ModelConfig
from myxtts.models.attention import SelfAttention
from myxtts.models.layers import (
    ConvBlock,
    Modulation,
    Packing,
    root_mean_square_norm,
)


class EncodedText(NamedTuple):
    states: tf.Tensor  # [batch, tokens, text_width]
    mean_mel: tf.Tensor  # [batch, tokens, channels of one position]
    log_durations: tf.Tensor  # [batch, tokens], of positions
    mask: tf.Tensor  # [batch, tokens, 1]


class TextEncoder(keras.layers.Layer):
    def __init__(
        self, model: ModelConfig, symbols: int, languages: int, mel_channels: int, **kwargs: Any
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.sizes = model
        width, policy = model.text_width, self.dtype_policy
        spread = keras.initializers.RandomNormal(stddev=1.0)
        self.symbol_embedding = keras.layers.Embedding(symbols, width, spread, name="symbols")
        self.language_embedding = keras.layers.Embedding(languages, width, spread, name="languages")
        self.voice_projection = keras.layers.Dense(width, name="voice")
        self.modulation = Modulation(
            width, model.text_blocks + 1, condition_width=width, name="modulation"
        )
        self.attentions = [
            SelfAttention(width, model.attention_heads, dtype=policy, name=f"attention_{index}")
            for index in range(model.text_blocks)
        ]
        self.blocks = [
            ConvBlock(width, model.kernel_positions, dtype=policy, name=f"block_{index}")
            for index in range(model.text_blocks)
        ]
        self.duration_block = ConvBlock(
            width, model.kernel_positions, dtype=policy, name="duration_block"
        )
        # Mean mel and duration of each symbol, regardless of voice and context. Training
        # initializes them from the corpus; the projections learn the rest.
        self.symbol_mean_mel = keras.layers.Embedding(
            symbols, mel_channels, "zeros", name="symbol_mean_mel"
        )
        self.symbol_log_duration = keras.layers.Embedding(
            symbols, 1, "zeros", name="symbol_log_duration"
        )
        self.mean_projection = keras.layers.Dense(
            mel_channels, kernel_initializer="zeros", name="mean_mel"
        )
        self.duration_projection = keras.layers.Dense(
            1, kernel_initializer="zeros", name="log_duration"
        )

    def build(self, input_shape: Any = None) -> None:
        for embedding in (
            self.symbol_embedding,
            self.language_embedding,
            self.symbol_mean_mel,
            self.symbol_log_duration,
        ):
            embedding.build()
        parts: tuple[Any, ...] = (
            *self.attentions,
            *self.blocks,
            self.duration_block,
            self.modulation,
        )
        for part in parts:
            part.build()
        self.voice_projection.build((None, self.sizes.voice_width))
        self.mean_projection.build((None, self.sizes.text_width))
        self.duration_projection.build((None, self.sizes.text_width))

    def call(
        self,
        token_ids: tf.Tensor,
        token_lengths: tf.Tensor,
        slots: tf.Tensor,
        language_ids: tf.Tensor,
        voice: tf.Tensor,
    ) -> EncodedText:
        """Encode `token_ids` [batch, tokens]; `slots` as in `Packing`, `voice` [batch, width]."""
        tokens = tf.shape(token_ids)[1]
        packing = Packing(slots, token_lengths, tokens)
        languages = packing.pack_ids(tf.repeat(language_ids[:, None], tokens, axis=1))
        values = self.symbol_embedding(packing.pack_ids(token_ids))
        values += self.language_embedding(languages)
        summary = self.voice_projection(voice) + self.language_embedding(language_ids)
        modulations = self.modulation(summary)
        for attention, block, (scale, shift) in zip(
            self.attentions, self.blocks, modulations[:-1], strict=True
        ):
            values = attention(values, packing=packing)
            values = block.call_packed(values, packing, scale, shift)
        states = root_mean_square_norm(values)
        for_durations = self.duration_block.call_packed(states, packing, *modulations[-1])
        mean_mel = self.symbol_mean_mel(token_ids) + packing.unpack(self.mean_projection(states))
        log_durations = self.symbol_log_duration(token_ids) + packing.unpack(
            self.duration_projection(for_durations)
        )
        return EncodedText(packing.unpack(states), mean_mel, log_durations[:, :, 0], packing.mask)
