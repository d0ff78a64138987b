"""Whether a model can be trained in the memory of this machine, before it is built."""

from __future__ import annotations

import math
from collections.abc import Callable

import keras

from myxtts.config.config import XTTSConfig
from myxtts.devices.machine import read_memory
from myxtts.errors import DeviceError

# Weights, their EMA and two moments, in float32.
_BYTES_PER_WEIGHT = 16
# Narrower models are small; counting the weights of every model would delay every start.
_LEAST_WIDTH = 1_024


def require_memory(
    config: XTTSConfig, make: Callable[[], keras.Model], free_bytes: int | None = None
) -> None:
    """Raises a DeviceError if the machine has less memory than the weights alone take.

    Without this the system ends the process. `free_bytes` None is what is free now.
    """
    model, vocoder = config.model, config.vocoder
    widths = (model.text_width, model.voice_width, model.decoder_width, vocoder.width)
    if max(widths) < _LEAST_WIDTH:
        return
    if free_bytes is None:
        free_bytes = read_memory().free_mb << 20
    # In this scope variables have shapes and get no values.
    with keras.StatelessScope(initialize_variables=False):
        count = sum(math.prod(variable.shape) for variable in make().trainable_variables)
    if count * _BYTES_PER_WEIGHT > free_bytes:
        raise DeviceError(
            f"a model of {count / 1e6:,.0f} million weights needs at least "
            f"{count * _BYTES_PER_WEIGHT / 1e9:.1f} GB to train, and {free_bytes / 1e9:.1f} GB are "
            "free; lower the sizes in model.* or vocoder.*, such as with --model-size"
        )
