"""GPU memory used by tensors of this process, from TensorFlow's counters.

This differs from NVML (`nvml.Card.used_mb`, shown by `myxtts doctor`), which reports memory
reserved by all processes. TensorFlow reserves its limit, or the whole card, in advance.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf


@dataclass(frozen=True)
class MemoryInUse:
    """Memory of one device; the peak is since the start of the process or the last reset."""

    current_mb: int
    peak_mb: int


def memory_in_use(
    devices: Iterable[str], counters: Any = tf.config.experimental
) -> dict[str, MemoryInUse]:
    """By device, such as "GPU:0". Devices without counters are left out, and so are CPUs, whose
    counters may be incomplete.

    Starts TensorFlow's runtime, so call it after devices and limits are set. Tests pass fake
    `counters`.
    """
    found = {}
    for device in _gpus(devices):
        # This error is the only sign that there are no counters.
        with contextlib.suppress(ValueError):
            info = counters.get_memory_info(device)
            found[device] = MemoryInUse(info["current"] >> 20, info["peak"] >> 20)
    return found


class PeakMemory:
    """Peak memory of a run on each of its devices, for its report.

    Create it when the run starts: it resets the peaks of earlier runs in the process.
    Devices are named as in the report: "GPU:0", "CPU:0".
    """

    def __init__(self, devices: Iterable[str], counters: Any = tf.config.experimental) -> None:
        self._devices = _gpus(devices)
        self._counters = counters
        for device in self._devices:
            with contextlib.suppress(ValueError):
                counters.reset_memory_stats(device)

    def peaks_mb(self) -> dict[str, int]:
        """Device to MB; empty without counters, as on CPUs."""
        found = memory_in_use(self._devices, self._counters)
        return {device: usage.peak_mb for device, usage in found.items()}


def _gpus(devices: Iterable[str]) -> tuple[str, ...]:
    return tuple(device for device in devices if device.startswith("GPU:"))
