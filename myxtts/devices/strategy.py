"""Chooses how training is spread over the devices that were found."""

from __future__ import annotations

import logging

import tensorflow as tf

from myxtts.devices.discovery import Accelerators, current_accelerators

logger = logging.getLogger(__name__)


def setup_gpu_strategy(enable_multi_gpu: bool = False) -> tf.distribute.Strategy:
    """The strategy for the devices of this process, virtual ones and visible_gpus included."""
    return choose_strategy(current_accelerators(), enable_multi_gpu)


def choose_strategy(accelerators: Accelerators, multi_gpu: bool) -> tf.distribute.Strategy:
    """Mirrored over all GPUs if wanted and there are several, else the first GPU, else the CPU."""
    if accelerators.gpu_count == 0:
        strategy, devices = tf.distribute.get_strategy(), accelerators.devices
    elif multi_gpu and accelerators.gpu_count > 1:
        strategy, devices = _mirrored(accelerators), accelerators.devices
    else:
        devices = accelerators.devices[:1]
        strategy = tf.distribute.OneDeviceStrategy(devices[0])
    logger.info(
        "strategy: %s on %s, because %s",
        type(strategy).__name__.lstrip("_"),
        ", ".join(devices),
        _reason(accelerators, multi_gpu),
    )
    return strategy


def uses_xla(strategy: tf.distribute.Strategy, wanted: bool | None) -> bool:
    """Whether the step is compiled with XLA: as wanted, else on GPUs and not on CPUs.

    On CPUs XLA was measured slower to start and not faster to run.
    """
    if wanted is not None:
        return wanted
    with strategy.scope():
        probe = tf.Variable(0)
    return any("GPU" in copy.device for copy in strategy.experimental_local_results(probe))


def _mirrored(accelerators: Accelerators) -> tf.distribute.Strategy:
    # NCCL is for GPUs only, and TensorFlow's collectives on CPUs fail for the second
    # MirroredStrategy of a process.
    reduction = tf.distribute.ReductionToOneDevice() if accelerators.kind == "virtual" else None
    return tf.distribute.MirroredStrategy(list(accelerators.devices), cross_device_ops=reduction)


def _reason(accelerators: Accelerators, multi_gpu: bool) -> str:
    count, wish = accelerators.gpu_count, "on" if multi_gpu else "off"
    if count == 0:
        return "there is no GPU"
    what = "virtual device" if accelerators.kind == "virtual" else "GPU"
    return f"there is 1 {what}" if count == 1 else f"there are {count} {what}s, multi_gpu {wish}"
