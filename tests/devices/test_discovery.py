"""Accelerators that are found, chosen and pretended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from myxtts.cli.main import main

RunSnippet = Callable[..., tuple[Any, str]]

PREPARE = """
import json
import tensorflow as tf
from myxtts.devices.strategy import Accelerators, current_accelerators, find_accelerators
from myxtts.errors import MyXTTSError

def message_of(**arguments):
    try:
        return f"no error: {find_accelerators(**arguments)}"
    except MyXTTSError as error:
        return str(error)

def found(accelerators):
    return [accelerators.kind, list(accelerators.devices), accelerators.gpu_count]
"""

# TensorFlow's own rules about visible GPUs, on a machine that has none: only the listing is
# replaced, because there is no public way to pretend.
PRETEND_THREE_GPUS = """
from tensorflow.python.eager import context
names = ["CPU:0", "GPU:0", "GPU:1", "GPU:2"]
context.pywrap_tfe.TF_ListPhysicalDevices = lambda: [
    f"/physical_device:{name}".encode() for name in names
]
"""


def test_machine_without_gpu(run_snippet: RunSnippet) -> None:
    answers, _ = run_snippet(
        PREPARE,
        """
        answers = {
            "current": found(current_accelerators()),
            "plain": found(find_accelerators()),
            "blank": found(find_accelerators(visible_gpus=" ")),
            "ids": message_of(visible_gpus="0,1"),
            "malformed": [message_of(visible_gpus=text) for text in
                          ("0;1", "a", "0,", ",", "0,,1", "-1", "1.0")],
            "twice": message_of(visible_gpus="1,0,1"),
            "negative": message_of(virtual_devices=-1),
            "after_errors": found(current_accelerators()),
        }
        tf.constant(1.0)
        answers["one_late"] = found(find_accelerators(virtual_devices=1))
        print(json.dumps(answers))
        """,
    )
    nothing = ["none", ["CPU:0"], 0]
    assert answers["current"] == answers["plain"] == answers["blank"] == nothing
    assert answers["after_errors"] == nothing
    assert answers["one_late"] == ["virtual", ["CPU:0"], 1]
    assert "no GPU" in answers["ids"]
    assert "--virtual-devices" in answers["ids"]
    for message in answers["malformed"]:
        assert "visible_gpus" in message
        assert '"0,1"' in message
    assert "expected each id once" in answers["twice"]
    assert '"0,1"' in answers["twice"]
    assert "-1" in answers["negative"]
    errors = [answers["ids"], answers["twice"], answers["negative"], *answers["malformed"]]
    assert not any("\n" in message or message.startswith("no error") for message in errors)


def test_virtual_devices_stand_in_for_gpus(run_snippet: RunSnippet) -> None:
    answers, _ = run_snippet(
        PREPARE,
        """
        answers = {
            "unknown": message_of(virtual_devices=2, visible_gpus="0,2,7"),
            "untouched": found(current_accelerators()),
            "two": found(find_accelerators(virtual_devices=2)),
            "four": found(find_accelerators(virtual_devices=4)),
            "selected": found(find_accelerators(virtual_devices=4, visible_gpus="3, 1")),
            "current": found(current_accelerators()),
        }
        answers["logical"] = [device.name for device in tf.config.list_logical_devices("CPU")]
        answers["again"] = found(find_accelerators(virtual_devices=4))
        answers["late"] = message_of(virtual_devices=3)
        answers["after_late"] = found(current_accelerators())
        with tf.device(current_accelerators().devices[2]):
            answers["tensor"] = tf.constant(1.0).device
        print(json.dumps(answers))
        """,
    )
    assert "2, 7" in answers["unknown"]
    assert "0, 1" in answers["unknown"]
    assert answers["untouched"] == ["none", ["CPU:0"], 0]
    assert answers["two"] == ["virtual", ["CPU:0", "CPU:1"], 2]
    four = ["virtual", ["CPU:0", "CPU:1", "CPU:2", "CPU:3"], 4]
    assert answers["four"] == answers["again"] == answers["after_late"] == four
    assert answers["selected"] == answers["current"] == ["virtual", ["CPU:1", "CPU:3"], 2]
    assert answers["logical"] == [f"/device:CPU:{index}" for index in range(4)]
    assert "3" in answers["late"]
    assert "4 CPU" in answers["late"]
    assert "before" in answers["late"]
    assert answers["tensor"].endswith("CPU:2")


def test_visible_gpus_restrict_real_gpus(run_snippet: RunSnippet) -> None:
    answers, _ = run_snippet(
        PREPARE,
        PRETEND_THREE_GPUS,
        """
        def visible():
            return [device.name[-5:] for device in tf.config.get_visible_devices("GPU")]

        answers = {
            "all": found(find_accelerators()),
            "unknown": message_of(visible_gpus="1,3"),
            "untouched": visible(),
            "two": found(find_accelerators(visible_gpus="2,0")),
            "visible": visible(),
            "plain": found(find_accelerators()),
            "virtual": found(find_accelerators(virtual_devices=2)),
            "hidden": visible(),
            "one": found(find_accelerators(visible_gpus="1")),
        }
        tf.constant(1.0)
        answers["late"] = message_of(visible_gpus="0")
        answers["late_virtual"] = message_of(virtual_devices=2)
        answers["current"] = found(current_accelerators())
        print(json.dumps(answers))
        """,
    )
    assert answers["all"] == ["GPU", ["GPU:0", "GPU:1", "GPU:2"], 3]
    assert "3" in answers["unknown"]
    assert "0, 1, 2" in answers["unknown"]
    assert answers["untouched"] == ["GPU:0", "GPU:1", "GPU:2"]
    assert answers["two"] == answers["plain"] == ["GPU", ["GPU:0", "GPU:1"], 2]
    assert answers["visible"] == ["GPU:0", "GPU:2"]
    assert answers["virtual"] == ["virtual", ["CPU:0", "CPU:1"], 2]
    assert answers["hidden"] == []
    assert answers["one"] == answers["current"] == ["GPU", ["GPU:0"], 1]
    assert "before" in answers["late"]
    assert "before" in answers["late_virtual"]


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--visible-gpus", "0,2", "--virtual-devices", "2"], "found 2, but the virtual devices"),
        (["--visible-gpus", "3", "--virtual-devices", "2"], "found 3, but the virtual devices"),
    ],
)
def test_visible_gpus_that_do_not_exist_end_the_command(
    flags: list[str], line: str, demo_corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--train-data", str(demo_corpus), *flags]) == 2
    assert f"myxtts train: visible_gpus: {line}" in capsys.readouterr().err
