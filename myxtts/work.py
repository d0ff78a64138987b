"""How much arithmetic the model does: what is real work and what is padding."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from myxtts.config.config import VOICE_STEP_FRAMES, XTTSConfig

Lengths = npt.NDArray[np.int32]
Amounts = npt.NDArray[np.float64]


def real_multiplications(
    tokens: Lengths, frames: Lengths, reference_frames: Lengths, config: XTTSConfig
) -> Amounts:
    """Multiplications of the forward pass that clips of these lengths need, one number each."""
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
    """Multiplications that are done for a clip in a shape, one number per clip.

    `slots` is each clip's part of the room in which the texts are packed.
    """
    model = config.model
    stretches = _on_stretches(model.segment_frames, model.reference_frames, config)
    return (
        slots * per_token(config)
        + on_padded_lengths(padded_tokens, padded_frames, config)
        + stretches
    )


def per_token(config: XTTSConfig) -> float:
    """Done on packed tokens: projections of the attentions, perceptrons, heads."""
    model = config.model
    channels = config.data.n_mels * model.frames_per_position
    return model.text_width * ((12 * model.text_blocks + 8) * model.text_width + channels)


def on_padded_lengths(tokens: Lengths, frames: Lengths, config: XTTSConfig) -> Amounts:
    """Done on the padded batch: attention among tokens, convolution over them, alignment."""
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
    segment_frames: Lengths | int, reference_frames: Lengths | int, config: XTTSConfig
) -> Amounts | float:
    """Done on stretches of fixed length: the decoder's segment and the voice's reference.

    Attention between positions and latents is left out: it is one or two hundredths of this.
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
