"""The input of a training step: made by `data`, read by `models`.

Fields are NumPy arrays, tensors or tensor specs, depending on where the batch is. No TensorFlow:
both sides import this module and not each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Batch(NamedTuple):
    """The input of a training step. Mels are log-mels from `audio.mel`."""

    token_ids: Any  # [batch, tokens] int32
    token_lengths: Any  # [batch] int32
    slots: Any  # [shares, slots] int32: packed texts, see models.packing
    mel: Any  # [batch, frames, mels] float32
    mel_lengths: Any  # [batch] int32
    reference: Any  # [batch, reference frames, mels] float32: the same voice, another clip
    reference_lengths: Any  # [batch] int32
    language_ids: Any  # [batch] int32
