"""Driver and cards as reported by NVIDIA's management library (NVML).

The only module that imports `pynvml` (package nvidia-ml-py). Without it, or without a driver, the
reading is empty and gives the reason.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Card:
    """One card. Its index in NVML is not its id in TensorFlow."""

    name: str
    memory_mb: int | None = None
    used_mb: int | None = None  # by all processes, not by this one alone


@dataclass(frozen=True)
class NvmlReading:
    """The driver and the cards, or in `problem` why NVML cannot be read."""

    cards: tuple[Card, ...] = ()
    driver_version: str | None = None
    cuda_version: tuple[int, int] | None = None  # the newest version the driver supports
    problem: str | None = None

    def memory_mb_of(self, name: str | None) -> int | None:
        """Memory of the cards of that name, if it is the same for all of them.

        NVML and CUDA number cards differently, and TensorFlow only reports a card's name.
        """
        sizes_mb = {card.memory_mb for card in self.cards if card.name == name}
        return sizes_mb.pop() if len(sizes_mb) == 1 else None


def import_pynvml() -> Any:
    return importlib.import_module("pynvml")


def read_nvml(load_library: Callable[[], Any] = import_pynvml) -> NvmlReading:
    """Reads NVML once. Tests pass a `load_library` that simulates a machine with GPUs."""
    try:
        nvml = load_library()
    except ImportError:
        return NvmlReading(problem="nvidia-ml-py is not installed")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return NvmlReading(problem=str(error))
    try:
        return NvmlReading(
            cards=tuple(_read_card(nvml, index) for index in range(nvml.nvmlDeviceGetCount())),
            driver_version=nvml.nvmlSystemGetDriverVersion(),
            cuda_version=_split_cuda_version(nvml.nvmlSystemGetCudaDriverVersion()),
        )
    except nvml.NVMLError as error:
        return NvmlReading(problem=str(error))
    finally:
        nvml.nvmlShutdown()


def _read_card(nvml: Any, index: int) -> Card:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    name = nvml.nvmlDeviceGetName(handle)
    # A GPU that shares system memory has no size of its own.
    with contextlib.suppress(nvml.NVMLError):
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        return Card(name, memory.total >> 20, memory.used >> 20)
    return Card(name)


def _split_cuda_version(number: int) -> tuple[int, int]:
    """12040 is 12.4."""
    return number // 1000, number % 1000 // 10
