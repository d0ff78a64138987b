"""Limits that are recommended, and that a run without limits of its own takes them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from myxtts.devices.memory import GpuRuntime, memory_for_tensors_mb, recommend_limits
from myxtts.devices.monitor import Card, NvmlReading


def machine_with(*sizes_mb: int | None) -> GpuRuntime:
    """Visible GPUs 0, 1, ... whose cards have these sizes; None: the card does not tell."""
    names = [f"card {index}" for index in range(len(sizes_mb))]
    config = SimpleNamespace(
        get_visible_devices=lambda kind: names if kind == "GPU" else [],
        experimental=SimpleNamespace(get_device_details=lambda gpu: {"device_name": gpu}),
    )
    cards = tuple(Card(name, size) for name, size in zip(names, sizes_mb, strict=True))
    return GpuRuntime(config, lambda: NvmlReading(cards))


@pytest.mark.parametrize(
    ("sizes_mb", "expected"),
    [
        ((24_576, 24_576), (4_096, 22_528)),
        ((8_192, 81_920), (4_096, 79_872)),
        ((4_096, 6_144), (3_072, 4_608)),
        ((None, 24_576), (4_096, 22_528)),
        ((24_576, None), (4_096, 16_384)),
    ],
)
def test_recommended_from_the_size(
    sizes_mb: tuple[int | None, ...], expected: tuple[int, int]
) -> None:
    assert recommend_limits(0, 1, machine_with(*sizes_mb)) == expected


def test_recommended_limits_fit_the_card(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="myxtts")
    for size_mb in range(1, 100_000, 997):
        limits = recommend_limits(0, 1, machine_with(size_mb, size_mb))
        assert 0 < limits.data_mb <= limits.model_mb <= size_mb
    assert "GPU 1 has 1 MB" in caplog.text


@pytest.mark.parametrize(
    ("gpu_id", "expected"),
    [(0, 22_528), (1, 3_072), (2, None), (3, None)],
    ids=["a card", "a small card", "a card that does not tell", "no such card"],
)
def test_without_a_limit_the_card_says_what_there_is(gpu_id: int, expected: int | None) -> None:
    assert memory_for_tensors_mb(gpu_id, machine_with(24_576, 4_096, None)) == expected


# The listing and the names of devices are replaced, because there is no public way to pretend.
LAUNCH = """
import json, sys, types
import tensorflow as tf
from tensorflow.python.eager import context
tfe = context.pywrap_tfe
names = ["CPU:0", "GPU:0", "GPU:1"]
tfe.TF_ListPhysicalDevices = lambda: [f"/physical_device:{name}".encode() for name in names]
tfe.TF_GetDeviceDetails = lambda index: {"device_name": f"card {index}"}
nvml = types.ModuleType("pynvml")
nvml.NVMLError = OSError
nvml.nvmlInit = nvml.nvmlShutdown = lambda: None
nvml.nvmlSystemGetDriverVersion = lambda: "550"
nvml.nvmlSystemGetCudaDriverVersion = lambda: 12040
nvml.nvmlDeviceGetCount = lambda: 3
nvml.nvmlDeviceGetHandleByIndex = lambda index: index
nvml.nvmlDeviceGetName = lambda index: f"card {index}"
nvml.nvmlDeviceGetMemoryInfo = lambda index: types.SimpleNamespace(total=12288 << 20, used=0)
sys.modules["pynvml"] = nvml

from myxtts.config.config import XTTSConfig
from myxtts.devices.memory import memory_for_tensors_mb
from myxtts.devices import strategy
strategy.choose_strategy = lambda *_, **__: None  # would start the pretended GPUs

def limits(**settings):
    strategy.set_up_devices(XTTSConfig(enable_memory_isolation=True, **settings))
    gpus = tf.config.list_physical_devices("GPU")
    assert [memory_for_tensors_mb(0), memory_for_tensors_mb(1)] == [
        tf.config.get_logical_device_configuration(gpu)[0].memory_limit for gpu in gpus
    ]
    return [tf.config.get_logical_device_configuration(gpu)[0].memory_limit for gpu in gpus]

print(json.dumps([limits(), limits(data_gpu_memory_mb=500, model_gpu_memory_mb=600)]))
"""


def test_a_run_takes_what_is_recommended_unless_told(
    run_snippet: Callable[..., tuple[Any, str]],
) -> None:
    found, _ = run_snippet(LAUNCH)
    assert found == [[4_096, 10_240], [500, 600]]
