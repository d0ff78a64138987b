"""The reading of NVML, on stand-ins for its library and, without one, as this machine is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from myxtts.devices.monitor import Card, NvmlReading, read_nvml


class NvmlError(Exception):
    """A fake pynvml.NVMLError."""


class StandInNvml:
    """pynvml on a machine with cards, each (name, total in bytes, used in bytes)."""

    NVMLError = NvmlError

    def __init__(self, *cards: tuple[str, int, int]) -> None:
        self.cards = cards
        self.is_open = False

    def nvmlInit(self) -> None:  # noqa: N802
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.is_open = False

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "550.54.15"

    def nvmlSystemGetCudaDriverVersion(self) -> int:  # noqa: N802
        return 12_040

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802
        return self.cards[index]

    def nvmlDeviceGetName(self, card: Any) -> str:  # noqa: N802
        assert self.is_open
        return card[0]

    def nvmlDeviceGetMemoryInfo(self, card: Any) -> Any:  # noqa: N802
        if card[1] == 0:
            raise NvmlError("Not Supported")
        return SimpleNamespace(total=card[1], used=card[2])


def test_driver_and_cards() -> None:
    library = StandInNvml(("A", 24 << 30, 300 << 20), ("shares the machine's memory", 0, 0))
    reading = read_nvml(lambda: library)
    assert reading == NvmlReading(
        cards=(Card("A", 24_576, 300), Card("shares the machine's memory")),
        driver_version="550.54.15",
        cuda_version=(12, 4),
    )
    assert not library.is_open


def test_without_the_package() -> None:
    def fail() -> None:
        raise ModuleNotFoundError("No module named 'pynvml'")

    assert read_nvml(fail) == NvmlReading(problem="nvidia-ml-py is not installed")


@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetCount"])
def test_without_a_driver(call: str) -> None:
    def fail(*_: object) -> None:
        raise NvmlError("NVML Shared Library Not Found")

    library = StandInNvml()
    setattr(library, call, fail)
    assert read_nvml(lambda: library) == NvmlReading(problem="NVML Shared Library Not Found")
    assert not library.is_open


def test_sizes_are_found_by_name() -> None:
    reading = NvmlReading((Card("A", 1), Card("B", 2), Card("B", 2), Card("C", 3), Card("C", 4)))
    found = [reading.memory_mb_of(name) for name in ("A", "B", "C", "D", None)]
    assert found == [1, 2, None, None, None]
