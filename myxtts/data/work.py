"""Estimates the work of the model: on real data and on padding."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from myxtts.config.config import VOICE_STEP_FRAMES, XTTSConfig

Lengths = npt.NDArray[np.int32]
Amounts = npt.NDArray[np.float64]


def real_multiplications(
    tokens: Lengths, frames: Lengths, reference_frames: Lengths, config: XTTSConfig
) -> Amounts:
    """Multiplications of a forward pass on real data only, per clip."""
    segment_frames = np.minimum(frames, config.model.segment_frames)
    references = np.minimum(reference_frames, config.model.reference_frames)
    return (
        tokens.astype(np.float64) * per_token(config)
        + on_padded_lengths(tokens, frames, config)
        + _on_stretches(segment_frames, references, config)
    )


def computed_multiplications(
    padded_tokens: Lengths, padded_frames: Lengths, slots: Amounts, config: XTTSConfig
) -> Amounts:
    """Multiplications of a forward pass on padded data, per clip.

    `slots` is each clip's share of the slots for packed texts.
    """
    model = config.model
    segment_frames = np.minimum(padded_frames, model.segment_frames)
    return (
        slots * per_token(config)
        + on_padded_lengths(padded_tokens, padded_frames, config)
        + _on_stretches(segment_frames, model.reference_frames, config)
    )


def per_token(config: XTTSConfig) -> float:
    """On packed tokens: attention projections, MLPs, output heads."""
    model = config.model
    channels = config.data.n_mels * model.frames_per_position
    return model.text_width * ((12 * model.text_blocks + 8) * model.text_width + channels)


def on_padded_lengths(tokens: Lengths, frames: Lengths, config: XTTSConfig) -> Amounts:
    """On the padded batch: self-attention, convolutions over tokens, alignment."""
    model = config.model
    channels = config.data.n_mels * model.frames_per_position
    token_count = tokens.astype(np.float64)
    positions = frames / model.frames_per_position
    convolution = model.kernel_positions * model.text_width * (model.text_blocks + 1)
    attention_per_pair = 2 * model.text_width * model.text_blocks
    return (
        token_count * convolution
        + token_count**2 * attention_per_pair
        + token_count * positions * channels
    )


def _on_stretches(
    segment_frames: Lengths, reference_frames: Lengths | int, config: XTTSConfig
) -> Amounts:
    """On segments of bounded length: the decoder's segment and the reference.

    Without attention between positions and latents, which is 1 or 2 % of this.
    """
    model = config.model
    channels = config.data.n_mels * model.frames_per_position
    per_position = model.decoder_width * (
        8 * model.decoder_blocks * model.decoder_width + 3 * channels + model.text_width
    )
    per_step = model.voice_width * (
        8 * model.voice_blocks * model.voice_width + VOICE_STEP_FRAMES * config.data.n_mels
    )
    return (
        segment_frames / model.frames_per_position * per_position
        + reference_frames / VOICE_STEP_FRAMES * per_step
    )
