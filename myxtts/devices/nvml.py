"""What NVIDIA's management library tells about the driver and the cards.

The only place that imports `pynvml` (package nvidia-ml-py). It is optional: without it, or
without a driver, there is a reading all the same, with nothing in it and the reason why.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Card:
    """One card. Its place in NVML's list is not the id that TensorFlow gives it."""

    name: str
    memory_mb: int | None = None
    used_mb: int | None = None  # by all processes, not by this one alone


@dataclass(frozen=True)
class NvmlReading:
    """The driver and the cards, or in `problem` why NVML tells nothing."""

    cards: tuple[Card, ...] = ()
    driver_version: str | None = None
    cuda_version: tuple[int, int] | None = None  # the newest that the driver can run
    problem: str | None = None

    def memory_mb_of(self, name: str | None) -> int | None:
        """The memory of the cards of that name, where all of them have the same.

        NVML and CUDA number cards differently, and TensorFlow tells only a card's name.
        """
        sizes_mb = {card.memory_mb for card in self.cards if card.name == name}
        return sizes_mb.pop() if len(sizes_mb) == 1 else None


def import_pynvml() -> Any:
    return importlib.import_module("pynvml")


def read_nvml(load_library: Callable[[], Any] = import_pynvml) -> NvmlReading:
    """Asks NVML once. Tests hand in a `load_library` that stands in for a machine with GPUs."""
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
    # A GPU that shares the memory of the machine has no size of its own.
    with contextlib.suppress(nvml.NVMLError):
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        return Card(name, memory.total >> 20, memory.used >> 20)
    return Card(name)


def _split_cuda_version(number: int) -> tuple[int, int]:
    """12040 is 12.4."""
    return number // 1000, number % 1000 // 10
