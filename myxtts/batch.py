"""What one training step takes: made by `data`, read by `models`.

The fields are NumPy arrays, tensors or their specifications, depending on where a batch is. Without
TensorFlow: both sides know this module and not each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Batch(NamedTuple):
    """What one training step takes. Mels are log-mels as `audio.mel` makes them."""

    token_ids: Any  # [batch, tokens] int32
    token_lengths: Any  # [batch] int32
    slots: Any  # [shares, slots] int32: the texts without padding, see models.packing
    mel: Any  # [batch, frames, mels] float32
    mel_lengths: Any  # [batch] int32
    reference: Any  # [batch, reference frames, mels] float32: the same voice, another clip
    reference_lengths: Any  # [batch] int32
    language_ids: Any  # [batch] int32
