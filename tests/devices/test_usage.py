"""Memory counters: TensorFlow's own on the CPU, which has none, and a stand-in for a GPU's."""

from __future__ import annotations

from myxtts.devices.memory import MemoryInUse, PeakMemory, memory_in_use


class StandInCounters:
    """tf.config.experimental with counters for GPU:0 and GPU:1, in bytes."""

    def __init__(self) -> None:
        self.current = {"GPU:0": 0, "GPU:1": 0}
        self.peak = dict(self.current)

    def hold(self, device: str, size_mb: int) -> None:
        self.current[device] = size_mb << 20
        self.peak[device] = max(self.peak[device], self.current[device])

    def get_memory_info(self, device: str) -> dict[str, int]:
        self._require_counters(device)
        return {"current": self.current[device], "peak": self.peak[device]}

    def reset_memory_stats(self, device: str) -> None:
        self._require_counters(device)
        self.peak[device] = self.current[device]

    def _require_counters(self, device: str) -> None:
        if device not in self.current:
            raise ValueError(f"Allocator stats not available for device '{device}'")


def test_a_cpu_has_no_counters() -> None:
    assert memory_in_use(["CPU:0"]) == {}
    assert PeakMemory(["CPU:0"]).peaks_mb() == {}
    assert PeakMemory([]).peaks_mb() == {}


def test_memory_in_use() -> None:
    counters = StandInCounters()
    counters.hold("GPU:0", 700)
    counters.hold("GPU:0", 200)
    found = memory_in_use(["GPU:0", "CPU:0"], counters)
    assert found == {"GPU:0": MemoryInUse(current_mb=200, peak_mb=700)}


def test_peak_of_a_run_counts_from_its_start() -> None:
    counters = StandInCounters()
    counters.hold("GPU:0", 9_000)
    counters.hold("GPU:0", 100)
    run = PeakMemory(["GPU:0", "GPU:1", "CPU:0"], counters)
    counters.hold("GPU:0", 400)
    counters.hold("GPU:0", 150)
    counters.hold("GPU:1", 30)
    assert run.peaks_mb() == {"GPU:0": 400, "GPU:1": 30}
