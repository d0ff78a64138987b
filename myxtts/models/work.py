"""How much arithmetic clips of given lengths take: what is real work and what is padding."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from myxtts.config.config import XTTSConfig

Lengths = npt.NDArray[np.int32]


def multiplications(tokens: Lengths, frames: Lengths, config: XTTSConfig) -> float:
    """Multiplications of the forward pass for clips of these lengths, padding counted as length."""
    model = config.model
    channels = config.data.n_mels * model.frames_per_position
    positions = frames.astype(np.float64) / model.frames_per_position
    token_count = tokens.astype(np.float64)
    segment_positions = np.minimum(positions, model.segment_frames / model.frames_per_position)
    per_token = model.text_width * ((12 * model.text_blocks + 8) * model.text_width + channels)
    attention_per_pair = 2 * model.text_width * model.text_blocks
    # Scores of the alignment and the mean mel of each position.
    alignment_per_pair = 2 * channels
    per_segment_position = model.decoder_width * (
        (8 * model.decoder_blocks + model.decoder_blocks) * model.decoder_width
        + 3 * channels
        + model.text_width
    )
    return float(
        np.sum(
            token_count * per_token
            + token_count**2 * attention_per_pair
            + token_count * positions * alignment_per_pair
            + segment_positions * per_segment_position
        )
    )
