"""Sets up the devices of a run from its configuration, before any other TensorFlow work."""

from __future__ import annotations

import dataclasses
import logging
from typing import NamedTuple

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.devices.memory import recommend_limits, setup_gpu_memory_isolation
from myxtts.devices.placement import named_model_gpus, place
from myxtts.devices.strategy import (
    Accelerators,
    choose_strategy,
    find_accelerators,
    find_cluster,
    machines_strategy,
    reason_for_strategy,
)
from myxtts.errors import DeviceError

_log = logging.getLogger(__name__)


class Devices(NamedTuple):
    """The devices of a run."""

    strategy: tf.distribute.Strategy
    data_device: str | None
    """The device that computes features; None: they come from the cache."""
    reason: str
    """Why this strategy was chosen."""


def set_up_devices(config: XTTSConfig) -> Devices:
    """Call this before any other TensorFlow work."""
    training = config.training
    accelerators = find_accelerators(training.virtual_devices, training.visible_gpus)
    if config.data.enable_memory_isolation:
        _isolate_memory(config, accelerators)
    cluster = find_cluster()
    placement = place(config, accelerators.gpu_count, cluster.workers if cluster else 1)
    for setting in placement.without_effect:
        _log.warning("%s", setting)
    if placement.missing is not None:
        _refuse_if_strict(f"--model-gpu: {placement.missing}", config)
        _log.warning("model %s; continuing with the available devices", placement.missing)
    if placement.not_mirrored is not None:
        _refuse_if_strict(f"--multi-gpu: {placement.not_mirrored}", config)
        _log.warning("--multi-gpu does nothing: it %s", placement.not_mirrored)
    if placement.problem is not None:
        turn_multi_gpu_mode_off(placement.problem, config)
    data_gpu, model_gpus = placement.data_gpu, placement.model_gpus
    data_device = None if data_gpu is None else accelerators.devices[data_gpu]
    reason = placement.reason or reason_for_strategy(accelerators, training.multi_gpu)
    if cluster is not None:
        reason = f"this is worker {cluster.index} of {cluster.workers} by {cluster.source}"
        strategy = machines_strategy(cluster, accelerators, config.training.multi_gpu)
    elif placement.reason is not None:
        chosen = tuple(accelerators.devices[number] for number in model_gpus)
        accelerators = dataclasses.replace(accelerators, devices=chosen)
        strategy = choose_strategy(accelerators, multi_gpu=len(model_gpus) > 1, reason=reason)
    else:
        strategy = choose_strategy(accelerators, training.multi_gpu)
    return Devices(strategy, data_device, reason)


def _isolate_memory(config: XTTSConfig, accelerators: Accelerators) -> None:
    if accelerators.kind == "virtual":
        _log.warning("GPU memory isolation is off: virtual devices have no memory of their own")
        return
    data = config.data
    data_gpu_id = 0 if data.data_gpu is None else data.data_gpu
    model_gpu_id = named_model_gpus(config)[0]
    recommended = recommend_limits(data_gpu_id, model_gpu_id)
    data_mb, model_mb = data.data_gpu_memory_mb, data.model_gpu_memory_mb
    setup_gpu_memory_isolation(
        data_gpu_id=data_gpu_id,
        model_gpu_id=model_gpu_id,
        data_gpu_memory_limit=recommended.data_mb if data_mb is None else data_mb,
        model_gpu_memory_limit=recommended.model_mb if model_mb is None else model_mb,
    )


def turn_multi_gpu_mode_off(problem: str, config: XTTSConfig) -> None:
    _refuse_if_strict(f"multi-GPU mode: {problem}", config)
    _log.warning("multi-GPU mode is off: %s; continuing in single-GPU buffered mode", problem)


def _refuse_if_strict(problem: str, config: XTTSConfig) -> None:
    if config.training.strict_devices:
        raise DeviceError(f"{problem}; leave out --strict-devices to continue without it")
