"""Memory limits for the data GPU and the model GPU, recommended from the sizes of the cards."""

from __future__ import annotations

import logging
from typing import NamedTuple

from myxtts.devices.memory import DEFAULT_DATA_LIMIT_MB, DEFAULT_MODEL_LIMIT_MB, GpuRuntime

logger = logging.getLogger(__name__)

# The CUDA context, cuDNN's and cuBLAS's handles and the loaded kernels are outside of the limit.
# Without limits TensorFlow leaves them 0.5 to 1.8 GB, depending on the card's generation.
_HEADROOM_MB = 2048
# Features of 64 clips of 30 s at once need 1.9 GB: 0.2 for the samples, 0.7 each for the windows
# and their spectra, 0.3 for the power. As much again lets the next batch begin meanwhile.
_DATA_MB = 4096


class Limits(NamedTuple):
    data_mb: int
    model_mb: int


def recommend_limits(
    data_gpu_id: int, model_gpu_id: int, runtime: GpuRuntime | None = None
) -> Limits:
    """What suits the two cards; one that does not tell its size is thought to have the default.

    To be called before any other TensorFlow work. Ids count the visible GPUs, from 0.
    """
    runtime = runtime or GpuRuntime()
    return Limits(
        min(_DATA_MB, _usable_mb(runtime, data_gpu_id) or DEFAULT_DATA_LIMIT_MB),
        _usable_mb(runtime, model_gpu_id) or DEFAULT_MODEL_LIMIT_MB,
    )


def _usable_mb(runtime: GpuRuntime, gpu_id: int) -> int | None:
    gpus = runtime.list_gpus()
    memory_mb = runtime.memory_mb(gpus[gpu_id]) if 0 <= gpu_id < len(gpus) else None
    if memory_mb is None:
        return None
    # A small card keeps three quarters: there the headroom would leave next to nothing.
    usable_mb = memory_mb - min(_HEADROOM_MB, memory_mb // 4)
    logger.info("GPU %d has %d MB, of which %d MB are for tensors", gpu_id, memory_mb, usable_mb)
    return usable_mb
