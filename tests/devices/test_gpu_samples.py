"""The sampling of GPUs, on stand-ins for NVML's library and, without one, as this machine is."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from myxtts.devices.monitor import GpuSampler


class NvmlError(Exception):
    """A fake pynvml.NVMLError."""


class StandInNvml:
    """A fake pynvml whose cards return these readings one after the other, and then hang.

    A reading is (utilization in percent, used MB, watts, degrees), the same on every card. A card
    does not report values that are None; an error instead of a reading is raised.
    """

    NVMLError = NvmlError
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, *readings: tuple[float | None, ...] | NvmlError, cards: int = 1) -> None:
        # The first reading is asked for twice: once to see which figures there are.
        self._readings = [readings[0], *readings] if readings else []
        self._cards = cards
        self._place = 0
        self._asked: set[tuple[int, int]] = set()
        self.hangs = threading.Event()
        self.released = threading.Event()
        self.opened, self.closed = 0, 0

    def nvmlInit(self) -> None:  # noqa: N802
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.closed += 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self._cards

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUtilizationRates(self, card: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=self._read(card, 0))

    def nvmlDeviceGetMemoryInfo(self, card: int) -> Any:  # noqa: N802
        return SimpleNamespace(used=int(self._read(card, 1)) << 20)

    def nvmlDeviceGetPowerUsage(self, card: int) -> float:  # noqa: N802
        return self._read(card, 2) * 1_000

    def nvmlDeviceGetTemperature(self, card: int, sensor: int) -> float:  # noqa: N802
        assert sensor == self.NVML_TEMPERATURE_GPU
        return self._read(card, 3)

    def _read(self, card: int, figure: int) -> float:
        if (card, figure) in self._asked:
            self._asked.clear()
            self._place += 1
        self._asked.add((card, figure))
        if self._place == len(self._readings):
            self.hangs.set()
            self.released.wait()
            raise NvmlError("GPU is lost")
        reading = self._readings[self._place]
        if isinstance(reading, NvmlError):
            raise reading
        value = reading[figure]
        if value is None:
            raise NvmlError("Not Supported")
        return value


def sampling_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "gpu-sampler"]


def sampled(library: StandInNvml) -> GpuSampler:
    """Return a sampler that is closed after all readings of the library."""
    with GpuSampler(0.0, lambda: library) as sampler:
        assert library.hangs.wait(60)
        library.released.set()
    return sampler


def test_means_and_peaks_of_every_card() -> None:
    library = StandInNvml((50, 1_000, 100, 40), (100, 3_000, 200, 60), cards=2)
    sampler = sampled(library)
    expected = {
        f"gpu{card}_{name}": value
        for card in range(2)
        for name, value in {
            "utilisation": 75,
            "memory_mb": 2_000,
            "peak_memory_mb": 3_000,
            "power_w": 150,
            "temperature_c": 50,
            "peak_temperature_c": 60,
        }.items()
    }
    assert sampler.flush() == expected
    assert sampler.flush() == {}
    assert sampler.whole_run() == expected
    assert sampling_threads() == []
    assert (library.opened, library.closed) == (1, 1)


def test_a_flush_starts_over() -> None:
    steps = threading.Barrier(2, timeout=60)

    class InStep(StandInNvml):
        def nvmlDeviceGetUtilizationRates(self, card: int) -> Any:  # noqa: N802
            found = super().nvmlDeviceGetUtilizationRates(card)
            steps.wait()
            return found

    library = InStep((10, 1, 1, 30), (20, 1, 1, 30), (60, 1, 1, 30))
    with GpuSampler(0.0, lambda: library) as sampler:
        steps.wait()  # which figures there are
        steps.wait()  # 10 is read
        steps.wait()  # 10 is counted, 20 is read
        assert sampler.flush()["gpu0_utilisation"] == 10
        steps.wait()  # 20 is counted, 60 is read
        assert library.hangs.wait(60)
        assert sampler.flush()["gpu0_utilisation"] == 40
        library.released.set()
    assert sampler.whole_run()["gpu0_utilisation"] == 30


def test_a_figure_that_a_card_does_not_tell(caplog: pytest.LogCaptureFixture) -> None:
    library = StandInNvml((50, 1_000, None, 40))
    with GpuSampler(0.0, lambda: library) as sampler:
        assert library.hangs.wait(60)
        figures = sampler.flush()
        assert caplog.records == []
        library.released.set()
    assert set(figures) == {
        "gpu0_utilisation",
        "gpu0_memory_mb",
        "gpu0_peak_memory_mb",
        "gpu0_temperature_c",
        "gpu0_peak_temperature_c",
    }


def without_package() -> None:
    raise ModuleNotFoundError("No module named 'pynvml'")


def without_driver() -> StandInNvml:
    library = StandInNvml()

    def fail() -> None:
        raise NvmlError("NVML Shared Library Not Found")

    library.nvmlInit = fail  # type: ignore[method-assign]
    return library


@pytest.mark.parametrize(
    "load_library", [without_package, without_driver, lambda: StandInNvml(cards=0)]
)
def test_nothing_to_sample(load_library: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with GpuSampler(0.0, load_library) as sampler:
        assert sampling_threads() == []
        assert sampler.flush() == sampler.whole_run() == {}
    assert caplog.records == []


def test_a_failure_ends_the_sampling_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    library = StandInNvml((50, 1_000, 100, 40), NvmlError("GPU is lost"))
    with GpuSampler(0.0, lambda: library) as sampler:
        for thread in sampling_threads():
            thread.join(60)
        assert sampling_threads() == []
        assert sampler.flush()["gpu0_power_w"] == 100
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "GPU is lost" in record.getMessage()
    assert library.closed == 1


def test_a_driver_that_hangs_keeps_nobody_waiting() -> None:
    library = StandInNvml((50, 1_000, 100, 40))
    sampler = GpuSampler(0.0, lambda: library)
    assert library.hangs.wait(60)
    assert sampler.flush()["gpu0_utilisation"] == 50
    sampler.close()
    (thread,) = sampling_threads()
    assert thread.daemon
    assert sampler.whole_run()["gpu0_utilisation"] == 50
    library.released.set()
    thread.join(60)
    sampler.close()
    assert sampling_threads() == []


def test_closing_does_not_wait_for_the_next_sample() -> None:
    library = StandInNvml((50, 1_000, 100, 40))
    with GpuSampler(3_600.0, lambda: library):
        pass
    assert sampling_threads() == []
    assert library.closed == 1
