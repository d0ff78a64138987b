"""Memory counters: TensorFlow's own on the CPU, which has none, and a stand-in for a GPU's."""

from __future__ import annotations

import weakref
from typing import Any

import tensorflow as tf

from myxtts.devices.memory import MemoryInUse, PeakMemory, free_graphs, memory_in_use


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


def looping_function() -> Any:
    """Return a traced function with a loop and a branch over tensors of its own graph."""

    def compute(value: tf.Tensor) -> tf.Tensor:
        factor = value + 1.0
        value = tf.while_loop(
            lambda it: it < 100.0, lambda it: (it * factor,), (value,), maximum_iterations=9
        )[0]
        return tf.cond(value > 0.0, lambda: value * factor, lambda: -value)

    function = tf.function(compute, input_signature=[tf.TensorSpec([])], autograph=False)
    function.get_concrete_function()
    return function


def test_graphs_of_functions_that_are_gone_are_freed_and_the_others_work() -> None:
    gone, kept = looping_function(), looping_function()
    graph = weakref.ref(gone.get_concrete_function().graph)
    expected = kept(tf.constant(2.0)).numpy()
    del gone
    free_graphs()
    assert graph() is None
    assert kept(tf.constant(2.0)).numpy() == expected
    value = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(value)
        result = kept(value)
    assert tape.gradient(result, value).numpy() > 0
