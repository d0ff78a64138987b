"""Which GPUs train, decided from settings and numbers, and that a run has just those."""

from __future__ import annotations

import pytest

from myxtts.config.config import XTTSConfig
from myxtts.devices import strategy
from myxtts.devices.placement import expected_gpu_count, place
from myxtts.devices.strategy import Accelerators, set_up_devices
from myxtts.errors import ConfigError, DeviceError


@pytest.mark.parametrize(
    ("settings", "gpus", "model_gpus", "data_gpu"),
    [
        ({}, 0, (), None),
        ({}, 3, (0,), None),
        ({"multi_gpu": True}, 0, (), None),
        ({"multi_gpu": True}, 3, (0, 1, 2), None),
        ({"model_gpu": "1, 2"}, 3, (1, 2), None),
        ({"model_gpu": "1,7"}, 3, (1,), None),
        ({"model_gpu": "7", "multi_gpu": True}, 2, (0, 1), None),
        ({"model_gpu": "1,2,3", "data_gpu": 0}, 4, (1, 2, 3), 0),
        ({"enable_memory_isolation": True}, 2, (1,), None),
        ({"enable_memory_isolation": True}, 1, (0,), None),
    ],
)
def test_gpus_of_model_and_data(settings, gpus, model_gpus, data_gpu):
    placement = place(XTTSConfig(**settings), gpus)
    assert (placement.model_gpus, placement.data_gpu) == (model_gpus, data_gpu)
    assert placement.replicas == max(1, len(model_gpus))
    assert placement.problem is None


@pytest.mark.parametrize(
    ("settings", "machines", "problem", "model_gpus"),
    [
        ({"data_gpu": 0}, 1, "--data-gpu requires --model-gpu", (0,)),
        (
            {"data_gpu": 4, "model_gpu": "1,5"},
            1,
            "GPU 4, 5 does not exist (found 3 GPUs)",
            (1,),
        ),
        (
            {"data_gpu": 1, "model_gpu": "1,2"},
            1,
            "GPU 1 cannot be both data GPU and model GPU",
            (1, 2),
        ),
        (
            {"data_gpu": 0, "model_gpu": "1,2"},
            2,
            "in multi-worker training (2 workers) each worker uses cached features",
            (0,),
        ),
    ],
)
def test_why_multi_gpu_mode_cannot_be(settings, machines, problem, model_gpus):
    placement = place(XTTSConfig(**settings), 3, machines)
    assert (placement.data_gpu, placement.problem) == (None, problem)
    assert placement.model_gpus == model_gpus
    assert placement.replicas == machines * len(model_gpus)


def test_model_gpus_that_are_not_there_are_named():
    placement = place(XTTSConfig(model_gpu="0,1,2"), 1)
    assert placement.missing == "GPU 1, 2 does not exist (found 1 GPU)"
    assert place(XTTSConfig(model_gpu="0"), 1).missing is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"data_gpu": 0, "model_gpu": 1}, ()),
        (
            {"multi_gpu": True, "data_gpu": 0, "model_gpu": "1"},
            ("--multi-gpu does nothing, because model_gpu is 1",),
        ),
        # It is the data GPU that cannot be used here.
        ({"multi_gpu": True, "data_gpu": 0}, ()),
        (
            {"data_gpu_memory_mb": 1, "model_gpu_memory_mb": 1},
            (
                "--data-gpu-memory does nothing without --enable-memory-isolation",
                "--model-gpu-memory does nothing without --enable-memory-isolation",
            ),
        ),
        ({"data_gpu_memory_mb": 1, "enable_memory_isolation": True}, ()),
    ],
)
def test_settings_that_do_nothing_are_named(settings, said):
    assert place(XTTSConfig(**settings), 2).without_effect == said


@pytest.mark.parametrize("given", [1, "1", [1], ["1"], (1,)])
def test_ids_as_users_write_them(given):
    config = XTTSConfig(data_gpu=given, model_gpu=given, visible_gpus=given)
    assert config.data.data_gpu == 1
    assert config.data.model_gpu == config.training.visible_gpus == "1"
    assert XTTSConfig(model_gpu=[1, "2"]).data.model_gpu == "1,2"


@pytest.mark.parametrize("given", [True, [1, None], [], 1.5, {"id": 1}, [True]])
@pytest.mark.parametrize("setting", ["data_gpu", "model_gpu", "visible_gpus"])
def test_what_is_no_id_is_refused(setting, given):
    with pytest.raises(ConfigError, match=rf"{setting}: found .*, expected"):
        XTTSConfig(**{setting: given})


@pytest.mark.parametrize(
    ("settings", "gpus", "line"),
    [
        ({"multi_gpu": True}, 0, r"--multi-gpu: requires at least 2 GPUs \(found 0\)"),
        ({"multi_gpu": True}, 1, r"--multi-gpu: requires at least 2 GPUs \(found 1\)"),
        ({"model_gpu": 1}, 1, r"--model-gpu: GPU 1 does not exist \(found 1 GPU\)"),
        ({"data_gpu": 0, "model_gpu": 1}, 1, "multi-GPU mode: GPU 1 does not exist"),
    ],
)
def test_strict_devices_stop(monkeypatch, settings, gpus, line):
    there = Accelerators(
        tuple(f"CPU:{it}" for it in range(gpus or 1)), "virtual" if gpus else "none"
    )
    monkeypatch.setattr(strategy, "find_accelerators", lambda *_: there)
    with pytest.raises(DeviceError, match=f"^{line}.*leave out --strict-devices to continue"):
        set_up_devices(XTTSConfig(strict_devices=True, **settings))
    set_up_devices(XTTSConfig(**settings))


def test_isolation_on_too_few_gpus_names_no_gpu_that_nobody_named():
    assert place(XTTSConfig(enable_memory_isolation=True), 1).missing is None


@pytest.mark.parametrize("model_gpu", ["1,1", "one", "1,", "-1"])
def test_model_gpus_that_make_no_sense(model_gpu):
    with pytest.raises(ConfigError, match=r"data.model_gpu: found"):
        XTTSConfig(model_gpu=model_gpu)


@pytest.mark.parametrize(
    ("settings", "gpus_here", "expected"),
    [
        ({}, 4, 4),
        ({"visible_gpus": "0,2"}, 4, 2),
        ({"virtual_devices": 3}, 4, 3),
        ({"virtual_devices": 3, "visible_gpus": "1"}, 0, 1),
        # The settings imply a minimum number of GPUs of another machine.
        ({}, 0, 1),
        ({"model_gpu": "1,2,3"}, 0, 4),
        ({"model_gpu": "0", "data_gpu": 2}, 0, 3),
        ({"model_gpu": "1,2,3"}, 2, 2),
    ],
)
def test_gpus_foretold_without_tensorflow(settings, gpus_here, expected):
    assert expected_gpu_count(XTTSConfig(**settings), gpus_here) == expected


COMPARE = """
import json
from myxtts.config.config import XTTSConfig
from myxtts.devices.placement import expected_gpu_count, place
from myxtts.devices.strategy import set_up_devices

found = []
for settings in (
    {},
    {"multi_gpu": True},
    {"multi_gpu": True, "visible_gpus": "1,3"},
    {"model_gpu": "1,2,3"},
    {"model_gpu": "1,2", "data_gpu": 0},
    {"model_gpu": "0,1", "data_gpu": 1},
    {"model_gpu": "2,9"},
):
    config = XTTSConfig(virtual_devices=4, **settings)
    foretold = place(config, expected_gpu_count(config, 0))
    devices = set_up_devices(config)
    data_device = None if foretold.data_gpu is None else f"CPU:{foretold.data_gpu}"
    found.append([
        [foretold.replicas, data_device],
        [devices.strategy.num_replicas_in_sync, devices.data_device],
    ])
print(json.dumps(found))
"""


def test_a_run_has_the_replicas_that_were_foretold(run_snippet):
    found, _ = run_snippet(COMPARE)
    assert [foretold for foretold, _ in found] == [real for _, real in found]
    assert [replicas for (replicas, _), _ in found] == [1, 4, 2, 3, 2, 2, 1]
