"""Flow-matching decoder: from noise to a mel, conditioned on text and voice.

The decoder predicts the clean mel at every flow time, and the velocity follows from it. To predict
the velocity directly, it would have to carry the noise through its layers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.config.config import ModelConfig
from myxtts.models.attention import AttentionToLatents, Memory
from myxtts.models.layers import (
    Affine,
    ConvBlock,
    Modulation,
    root_mean_square_norm,
)
from myxtts.models.voice_encoder import Voice

# Every fourth block is preceded by attention to the voice latents.
_BLOCKS_PER_ATTENTION = 4
_LONGEST_PERIOD = 1_000.0


def condition_channels(model: ModelConfig, mel_channels: int) -> int:
    """Return the number of conditioning channels of a position: expected mel and hidden state.

    Without a frame encoder, these are those of the token and two numbers for the position in it.
    """
    return mel_channels + (model.frame_width if model.frame_blocks else model.text_width + 2)


class Conditioning(NamedTuple):
    """Projected conditioning, computed once and reused at every sampling step."""

    condition: tf.Tensor  # [batch, positions, width]
    voice: tf.Tensor  # [batch, width]
    memories: dict[str, Memory]
    contractions: list[Affine]
    expected: tf.Tensor
    """Base of the residual prediction, [batch, positions, mel_channels], or 0."""


class FlowDecoder(keras.layers.Layer):
    """A stack of ConvNeXt blocks; only convolutions mix positions, so any length works."""

    def __init__(self, model: ModelConfig, mel_channels: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        width, policy = model.decoder_width, self.dtype_policy
        self.sizes = model
        self.mel_channels = mel_channels
        self.noisy_projection = keras.layers.Dense(
            width, use_bias=False, dtype=policy, name="noisy"
        )
        self.condition_projection = keras.layers.Dense(width, dtype=policy, name="condition")
        self.time_projection = keras.layers.Dense(width, activation="silu", name="time")
        self.voice_projection = keras.layers.Dense(width, name="voice")
        self.modulation = Modulation(
            width, model.decoder_blocks + 1, condition_width=width, name="modulation"
        )
        self.attentions = {
            str(index): AttentionToLatents(
                width,
                model.attention_heads,
                memory_width=model.voice_width,
                dtype=policy,
                name=f"attention_{index}",
            )
            for index in range(0, model.decoder_blocks, _BLOCKS_PER_ATTENTION)
        }
        self.blocks = [
            ConvBlock(width, model.kernel_positions, dtype=policy, name=f"block_{index}")
            for index in range(model.decoder_blocks)
        ]
        self.mel_projection = keras.layers.Dense(
            mel_channels, kernel_initializer="zeros", name="mel"
        )

    def build(self, input_shape: Any = None) -> None:
        width = self.sizes.decoder_width
        parts: tuple[Any, ...] = (*self.attentions.values(), *self.blocks, self.modulation)
        for part in parts:
            part.build()
        self.noisy_projection.build((None, self.mel_channels))
        self.condition_projection.build((None, condition_channels(self.sizes, self.mel_channels)))
        self.time_projection.build((None, width))
        self.voice_projection.build((None, self.sizes.voice_width))
        self.mel_projection.build((None, width))

    def call(
        self,
        noisy: tf.Tensor,
        condition: tf.Tensor,
        mask: tf.Tensor,
        time: tf.Tensor,
        voice: Voice,
    ) -> tf.Tensor:
        """Predict the clean mel [batch, positions, mel_channels] at flow time `time` [batch]."""
        return self.denoised(noisy, mask, time, self.project(condition, voice))

    def project(self, condition: tf.Tensor, voice: Voice) -> Conditioning:
        return Conditioning(
            self.condition_projection(condition),
            self.voice_projection(voice.vector),
            {index: layer.memory(voice.latents) for index, layer in self.attentions.items()},
            [block.contraction() for block in self.blocks],
            tf.stop_gradient(condition[:, :, : self.mel_channels])
            if self.sizes.frame_blocks
            else tf.zeros([]),
        )

    def denoised(
        self, noisy: tf.Tensor, mask: tf.Tensor, time: tf.Tensor, conditioning: Conditioning
    ) -> tf.Tensor:
        values = tf.cast(self.noisy_projection(noisy) + conditioning.condition, tf.float32)
        summary = self.time_projection(self._time_features(time))
        modulations = self.modulation(summary + conditioning.voice)
        for index, block in enumerate(self.blocks):
            if (memory := conditioning.memories.get(str(index))) is not None:
                values = self.attentions[str(index)].attend(values, memory)
            scale, shift = modulations[index]
            values = block(values, mask, scale, shift, conditioning.contractions[index])
        scale, shift = modulations[-1]
        change = self.mel_projection(root_mean_square_norm(values) * (1.0 + scale) + shift)
        return conditioning.expected + change

    def _time_features(self, time: tf.Tensor) -> tf.Tensor:
        """Embed times as sines and cosines of geometrically spaced frequencies, [batch, width]."""
        half = self.sizes.decoder_width // 2
        exponents = tf.range(half, dtype=tf.float32) / half
        frequencies = tf.exp(-math.log(_LONGEST_PERIOD) * exponents) * _LONGEST_PERIOD
        angles = time[:, None] * frequencies
        return tf.concat([tf.sin(angles), tf.cos(angles)], -1)
