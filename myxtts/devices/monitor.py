"""Driver and cards as reported by NVIDIA's management library (NVML).

The only module that imports `pynvml` (package nvidia-ml-py). Without it, or without a driver, the
reading is empty and gives the reason.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self


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
        """Return the memory of the cards with that name, if it is the same for all.

        NVML and CUDA number cards differently, and TensorFlow only reports a card's name.
        """
        sizes_mb = {card.memory_mb for card in self.cards if card.name == name}
        return sizes_mb.pop() if len(sizes_mb) == 1 else None


def import_pynvml() -> Any:
    return importlib.import_module("pynvml")


def read_nvml(load_library: Callable[[], Any] = import_pynvml) -> NvmlReading:
    """Read NVML once. Tests pass a `load_library` that simulates a machine with GPUs."""
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
    """Split a CUDA version: 12040 is 12.4."""
    return number // 1000, number % 1000 // 10


_log = logging.getLogger(__name__)

# Each reads one value of a card. Utilization is in percent.
_FIGURES: dict[str, Callable[[Any, Any], float]] = {
    "utilisation": lambda nvml, card: float(nvml.nvmlDeviceGetUtilizationRates(card).gpu),
    "memory_mb": lambda nvml, card: nvml.nvmlDeviceGetMemoryInfo(card).used / 2**20,
    "power_w": lambda nvml, card: nvml.nvmlDeviceGetPowerUsage(card) / 1_000,
    "temperature_c": lambda nvml, card: float(
        nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU)
    ),
}
_FIGURES_WITH_PEAKS = ("memory_mb", "temperature_c")
# A hanging driver may block the thread; the run does not wait longer than this.
_MAX_SECONDS_TO_CLOSE = 2.0


class GpuSampler:
    """Samples every card that NVML knows, numbered as nvidia-smi numbers them, until closed.

    Without nvidia-ml-py, a driver or a card it does nothing. Values that a card does not report are
    left out; if NVML fails later, sampling ends with a warning and the run continues. Tests pass a
    `load_library` that simulates GPUs.
    """

    def __init__(
        self, interval_seconds: float = 2.0, load_library: Callable[[], Any] = import_pynvml
    ) -> None:
        self._interval_seconds = interval_seconds
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._since_flush, self._whole_run = _Averages(), _Averages()
        self._thread: threading.Thread | None = None
        try:
            self._nvml = load_library()
        except ImportError:
            return
        cards = self._open()
        if cards:
            self._thread = threading.Thread(
                target=self._sample, args=(cards,), name="gpu-sampler", daemon=True
            )
            self._thread.start()

    def flush(self) -> dict[str, float]:
        """Return means, and peaks of memory and temperature, since the last flush; may be empty."""
        with self._lock:
            averages, self._since_flush = self._since_flush, _Averages()
        return averages.as_dict()

    def whole_run(self) -> dict[str, float]:
        """Return the same since the sampler was created."""
        with self._lock:
            return self._whole_run.as_dict()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join(_MAX_SECONDS_TO_CLOSE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> list[Any]:
        """Return handles of the cards; NVML stays open if there are any."""
        nvml = self._nvml
        try:
            nvml.nvmlInit()
        except nvml.NVMLError:
            return []
        cards: list[Any] = []
        with contextlib.suppress(nvml.NVMLError):
            count = nvml.nvmlDeviceGetCount()
            cards = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        if not cards:
            self._shut_down()
        return cards

    def _sample(self, cards: list[Any]) -> None:
        """Sample in the thread; NVML calls, which may hang, are made without holding the lock."""
        try:
            readers = self._readers(cards)
            while readers and not self._closing.is_set():
                figures = {name: read() for name, read in readers.items()}
                with self._lock:
                    self._since_flush.add(figures)
                    self._whole_run.add(figures)
                self._closing.wait(self._interval_seconds)
        except self._nvml.NVMLError as error:
            _log.warning(
                "NVML stopped responding (%s): GPU utilization is no longer recorded",
                error,
            )
        self._shut_down()

    def _readers(self, cards: list[Any]) -> dict[str, Callable[[], float]]:
        """Return readers, by name, of the values that every card reports."""
        readers: dict[str, Callable[[], float]] = {}
        for index, card in enumerate(cards):
            for figure, read in _FIGURES.items():
                with contextlib.suppress(self._nvml.NVMLError):
                    read(self._nvml, card)
                    readers[f"gpu{index}_{figure}"] = functools.partial(read, self._nvml, card)
        return readers

    def _shut_down(self) -> None:
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()


class _Averages:
    """Means and peaks of samples with the same keys."""

    def __init__(self) -> None:
        self._samples = 0
        self._sums: dict[str, float] = {}
        self._peaks: dict[str, float] = {}

    def add(self, figures: dict[str, float]) -> None:
        self._samples += 1
        for name, value in figures.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
            self._peaks[name] = max(self._peaks.get(name, value), value)

    def as_dict(self) -> dict[str, float]:
        found = {}
        for name, total in self._sums.items():
            found[name] = total / self._samples
            card, figure = name.split("_", 1)
            if figure in _FIGURES_WITH_PEAKS:
                found[f"{card}_peak_{figure}"] = self._peaks[name]
        return found
