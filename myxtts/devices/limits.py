"""Recommends memory limits for the data GPU and the model GPU from the sizes of the cards."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from myxtts.devices.memory import DEFAULT_DATA_LIMIT_MB, DEFAULT_MODEL_LIMIT_MB, GpuRuntime

logger = logging.getLogger(__name__)

# The CUDA context, handles of cuDNN and cuBLAS, and loaded kernels are not part of the limit.
# Without limits TensorFlow reserves 0.5 to 1.8 GB for them, depending on the GPU generation.
_HEADROOM_MB = 2048
# Features of 64 clips of 30 s need 1.9 GB: 0.2 for the samples, 0.7 each for the windows and their
# spectra, 0.3 for the power. Twice that lets the next batch overlap.
_DATA_MB = 4096


class Limits(NamedTuple):
    data_mb: int
    model_mb: int


def recommend_limits(
    data_gpu_id: int, model_gpu_id: int, runtime: GpuRuntime | None = None
) -> Limits:
    """Limits for the two cards; a card of unknown size gets the default.

    Call it before any other TensorFlow work. Ids count the visible GPUs, from 0.
    """
    runtime = runtime or GpuRuntime()
    return Limits(
        min(_DATA_MB, _recommended_mb(runtime, data_gpu_id) or DEFAULT_DATA_LIMIT_MB),
        _recommended_mb(runtime, model_gpu_id) or DEFAULT_MODEL_LIMIT_MB,
    )


def memory_for_tensors_mb(gpu_id: int, runtime: GpuRuntime | None = None) -> int | None:
    """Memory of a visible GPU for tensors: its limit, or else the card's memory minus headroom.

    None if there is no limit and the size of the card is unknown.
    """
    runtime = runtime or GpuRuntime()
    gpu = _visible_gpu(runtime, gpu_id)
    if gpu is None:
        return None
    limit_mb, memory_mb = runtime.limit_mb(gpu), runtime.memory_mb(gpu)
    if limit_mb is not None:
        return limit_mb
    return None if memory_mb is None else _without_headroom(memory_mb)


def _recommended_mb(runtime: GpuRuntime, gpu_id: int) -> int | None:
    gpu = _visible_gpu(runtime, gpu_id)
    memory_mb = None if gpu is None else runtime.memory_mb(gpu)
    if memory_mb is None:
        return None
    usable_mb = _without_headroom(memory_mb)
    logger.info("GPU %d has %d MB, of which %d MB are for tensors", gpu_id, memory_mb, usable_mb)
    return usable_mb


def _visible_gpu(runtime: GpuRuntime, gpu_id: int) -> Any | None:
    gpus = runtime.list_gpus()
    return gpus[gpu_id] if 0 <= gpu_id < len(gpus) else None


def _without_headroom(memory_mb: int) -> int:
    # A small card gets three quarters: the full headroom would leave next to nothing.
    return memory_mb - min(_HEADROOM_MB, memory_mb // 4)
