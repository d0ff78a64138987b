"""How much memory the tensors of this process take, by TensorFlow's own counters.

NVML's figure (`nvml.Card.used_mb`, which `myxtts doctor` shows) is another: what all processes
have reserved on a card. TensorFlow reserves a limit, or the whole card, before it fills it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf


@dataclass(frozen=True)
class MemoryInUse:
    """Of one device; the peak counts from the process's start or from the last reset."""

    current_mb: int
    peak_mb: int


def memory_in_use(
    devices: Iterable[str], counters: Any = tf.config.experimental
) -> dict[str, MemoryInUse]:
    """By device, such as "GPU:0". What has no counters is left out, and so are CPUs, some of whose
    allocators count a part of what they give.

    Starts TensorFlow's runtime: to be called after devices and limits have been set. Tests hand
    in `counters` that stand in for those of a GPU.
    """
    found = {}
    for device in _gpus(devices):
        # TensorFlow tells that there are no counters only by this error.
        with contextlib.suppress(ValueError):
            info = counters.get_memory_info(device)
            found[device] = MemoryInUse(info["current"] >> 20, info["peak"] >> 20)
    return found


class PeakMemory:
    """The most memory that a run took on each of its devices, for its report.

    Made when the run starts, it sets the peaks back, so that an earlier run in the same process
    does not count. Devices are named as in the report: "GPU:0", "CPU:0".
    """

    def __init__(self, devices: Iterable[str], counters: Any = tf.config.experimental) -> None:
        self._devices = _gpus(devices)
        self._counters = counters
        for device in self._devices:
            with contextlib.suppress(ValueError):
                counters.reset_memory_stats(device)

    def peaks_mb(self) -> dict[str, int]:
        """Device to MB; empty where no device has counters, as on CPUs."""
        found = memory_in_use(self._devices, self._counters)
        return {device: usage.peak_mb for device, usage in found.items()}


def _gpus(devices: Iterable[str]) -> tuple[str, ...]:
    return tuple(device for device in devices if device.startswith("GPU:"))
