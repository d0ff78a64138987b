"""Sets up the devices of a run from its configuration, before any other TensorFlow work."""

from __future__ import annotations

import dataclasses
import logging
from typing import NamedTuple

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.devices.cluster import Cluster, find_cluster
from myxtts.devices.discovery import Accelerators, find_accelerators
from myxtts.devices.limits import recommend_limits
from myxtts.devices.memory import setup_gpu_memory_isolation
from myxtts.devices.strategy import (
    choose_strategy,
    machines_strategy,
)
from myxtts.errors import DeviceError
from myxtts.wording import plural

_log = logging.getLogger(__name__)


class Devices(NamedTuple):
    """Where a run takes place."""

    strategy: tf.distribute.Strategy
    data_device: str | None
    """The device that computes features; None: they come from the cache."""


def set_up_devices(config: XTTSConfig) -> Devices:
    """To be called before any other TensorFlow work."""
    devices = config.devices
    accelerators = find_accelerators(devices.virtual_devices, config.training.visible_gpus)
    if devices.enable_memory_isolation:
        _isolate_memory(config, accelerators)
    cluster = find_cluster()
    data_device = _data_device(config, accelerators, cluster)
    model_gpus = [number for number in _model_gpus(config) if number < accelerators.gpu_count]
    if cluster is not None:
        strategy = machines_strategy(cluster, accelerators, config.training.multi_gpu)
    elif model_gpus:
        chosen = tuple(accelerators.devices[number] for number in model_gpus)
        accelerators = dataclasses.replace(accelerators, devices=chosen)
        strategy = choose_strategy(
            accelerators, multi_gpu=len(model_gpus) > 1, reason=_reason_for_model_gpus(config)
        )
    else:
        strategy = choose_strategy(accelerators, config.training.multi_gpu)
    return Devices(strategy, data_device)


def _data_device(
    config: XTTSConfig, accelerators: Accelerators, cluster: Cluster | None
) -> str | None:
    """The device of multi-GPU mode, where it was asked for and can be."""
    data_gpu, model_gpus = config.devices.data_gpu, _model_gpus(config)
    count = accelerators.gpu_count
    missing = [number for number in model_gpus if number >= count]
    if data_gpu is None:
        if missing:
            _log.warning(
                "model %s; going on with the devices there are", _not_there(missing, count)
            )
        return None
    if data_gpu >= count:
        missing = [data_gpu, *missing]
    if config.devices.model_gpu is None:
        problem = "--data-gpu needs --model-gpu beside it"
    elif missing:
        problem = _not_there(missing, count)
    elif data_gpu in model_gpus:
        problem = f"GPU {data_gpu} cannot be data GPU and model GPU at once"
    elif cluster is not None:
        problem = f"{cluster.workers} machines train together, each from its own cache"
    else:
        return accelerators.devices[data_gpu]
    turn_multi_gpu_mode_off(problem, config)
    return None


def _not_there(ids: list[int], count: int) -> str:
    return f"GPU {', '.join(map(str, ids))} is not there (found {count} {plural(count, 'GPU')})"


def _isolate_memory(config: XTTSConfig, accelerators: Accelerators) -> None:
    if accelerators.kind == "virtual":
        _log.warning("GPU memory isolation is off: virtual devices have no memory of their own")
        return
    devices = config.devices
    data_gpu_id = 0 if devices.data_gpu is None else devices.data_gpu
    model_gpu_id = _model_gpus(config)[0]
    recommended = recommend_limits(data_gpu_id, model_gpu_id)
    data_mb, model_mb = devices.data_gpu_memory_mb, devices.model_gpu_memory_mb
    setup_gpu_memory_isolation(
        data_gpu_id=data_gpu_id,
        model_gpu_id=model_gpu_id,
        data_gpu_memory_limit=recommended.data_mb if data_mb is None else data_mb,
        model_gpu_memory_limit=recommended.model_mb if model_mb is None else model_mb,
    )


def _model_gpus(config: XTTSConfig) -> list[int]:
    """Ids of the GPUs that train, or none where it was not said."""
    given = config.devices.model_gpu
    if given is None:
        # With memory isolation the first GPU is for data.
        return [1] if config.devices.enable_memory_isolation else []
    parts = [part.strip() for part in given.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise DeviceError(f'devices.model_gpu: found {given!r}, allowed: ids such as "1" or "1,2"')
    ids = [int(part) for part in parts]
    if len(set(ids)) < len(ids):
        raise DeviceError(f"devices.model_gpu: found {given!r}, allowed is each id once")
    return ids


def _reason_for_model_gpus(config: XTTSConfig) -> str:
    given = config.devices.model_gpu
    if given is None:
        return "memory isolation keeps the first GPU for data"
    return f"model_gpu is {given}"


def turn_multi_gpu_mode_off(problem: str, config: XTTSConfig) -> None:
    if config.devices.strict_devices:
        raise DeviceError(f"multi-GPU mode: {problem}; leave out --strict-devices to go on without")
    _log.warning("multi-GPU mode is off: %s; going on in single-GPU buffered mode", problem)
