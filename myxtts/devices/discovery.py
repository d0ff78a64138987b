"""Finds the GPUs of this machine, or replaces them by logical CPU devices.

The devices that TensorFlow sees can only be changed before its runtime starts, that is before the
first tensor, variable or list of logical devices. So call this first in a process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import tensorflow as tf

from myxtts.devices.placement import parse_visible_gpus
from myxtts.errors import DeviceError

_chosen: Accelerators | None = None


@dataclass(frozen=True)
class Accelerators:
    """The devices a run may use. GPU ids of the user are indices into `devices`."""

    devices: tuple[str, ...]  # as tf.device takes them: "GPU:0", "CPU:1"
    kind: Literal["GPU", "virtual", "none"]

    @property
    def gpu_count(self) -> int:
        """Number of real or virtual GPUs; 0 if there is only the CPU."""
        return 0 if self.kind == "none" else len(self.devices)


def find_accelerators(virtual_devices: int = 0, visible_gpus: str | None = None) -> Accelerators:
    """The GPUs, or `virtual_devices` logical CPU devices, or else the CPU.

    `visible_gpus` keeps only the listed ids, such as "0,2", always in ascending order, as
    TensorFlow numbers visible GPUs. None changes nothing.
    """
    global _chosen
    if virtual_devices < 0:
        raise DeviceError(f"virtual_devices: found {virtual_devices}, allowed: 0 or more")
    gpu_ids = parse_visible_gpus(visible_gpus)
    if virtual_devices:
        _chosen = _virtual_accelerators(virtual_devices, gpu_ids)
    else:
        _chosen = _real_accelerators(gpu_ids)
    return _chosen


def current_accelerators() -> Accelerators:
    """The last result of `find_accelerators` in this process, or all devices by default."""
    return _chosen or find_accelerators()


def _virtual_accelerators(count: int, gpu_ids: list[int]) -> Accelerators:
    _require_known(gpu_ids, count, "virtual devices")
    _split_cpu(count)
    chosen = gpu_ids or range(count)
    return Accelerators(tuple(f"CPU:{index}" for index in chosen), "virtual")


def _split_cpu(count: int) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    current_count = len(tf.config.get_logical_device_configuration(cpu) or [cpu])
    try:
        # With a visible GPU, operations without a device would run there.
        tf.config.set_visible_devices([], "GPU")
        if current_count != count:
            parts = [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
            tf.config.set_logical_device_configuration(cpu, parts)
    except RuntimeError as error:
        raise DeviceError(
            f"virtual_devices: found {count}, but TensorFlow already runs on other devices "
            f"({current_count} CPU); create virtual devices before any other TensorFlow work"
        ) from error


def _real_accelerators(gpu_ids: list[int]) -> Accelerators:
    if gpu_ids:
        _restrict_gpus(gpu_ids)
    gpu_count = len(tf.config.get_visible_devices("GPU"))
    if gpu_count == 0:
        return Accelerators(("CPU:0",), "none")
    return Accelerators(tuple(f"GPU:{index}" for index in range(gpu_count)), "GPU")


def _restrict_gpus(gpu_ids: list[int]) -> None:
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise DeviceError(
            f"visible_gpus: found {_listed(gpu_ids)}, but TensorFlow sees no GPU on "
            "this machine; omit it, or simulate GPUs with --virtual-devices N"
        )
    _require_known(gpu_ids, len(gpus), "GPUs")
    try:
        tf.config.set_visible_devices([gpus[gpu_id] for gpu_id in gpu_ids], "GPU")
    except RuntimeError as error:
        raise DeviceError(
            f"visible_gpus: found {_listed(gpu_ids)}, but TensorFlow already runs on other GPUs; "
            "choose them before any other TensorFlow work"
        ) from error


def _require_known(gpu_ids: list[int], count: int, what: str) -> None:
    unknown = [gpu_id for gpu_id in gpu_ids if gpu_id >= count]
    if unknown:
        raise DeviceError(
            f"visible_gpus: found {_listed(unknown)}, but the {what} here are "
            f"{_listed(range(count))}; choose among these"
        )


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers)
