"""Every way to train in the default configuration, through an evaluation and a checkpoint.

A covering subset runs by default; `make test-all` runs the whole product.
"""

from __future__ import annotations

import itertools
import json
import re

import pytest

BATCHING = {
    "bucketed": "--set data.shape_count=2",
    "fixed": "--enable-static-shapes --max-text-length 80 --max-mel-frames 600",
}
# Flags, strategy, data device and model devices.
DEVICES = {
    "single": ("--visible-gpus 1", "OneDeviceStrategy", None, ["CPU:1"]),
    "pipeline": ("--data-gpu 0 --model-gpu 2", "OneDeviceStrategy", "CPU:0", ["CPU:2"]),
    "mirrored": ("--multi-gpu --visible-gpus 1,2", "MirroredStrategy", None, ["CPU:1", "CPU:2"]),
    "pipeline mirrored": (
        "--data-gpu 0 --model-gpu 1,2",
        "MirroredStrategy",
        "CPU:0",
        ["CPU:1", "CPU:2"],
    ),
    "two workers": ("", "MultiWorkerMirroredStrategy", None, ["CPU:0"]),
}
XLA = ("--no-xla", "--xla")
STARTS = ("fresh", "resumed", "from base")
# Every value of every factor, and XLA where it compiles one shape only.
DEFAULT = (
    ("bucketed", "mirrored", "--no-xla", "resumed"),
    ("fixed", "mirrored", "--xla", "fresh"),
    ("fixed", "pipeline mirrored", "--no-xla", "fresh"),
    ("bucketed", "pipeline", "--no-xla", "from base"),
    ("fixed", "single", "--xla", "resumed"),
    ("fixed", "two workers", "--no-xla", "resumed"),
)
CELLS = [
    pytest.param(*cell, marks=() if cell in DEFAULT else pytest.mark.slow)
    for cell in itertools.product(BATCHING, DEVICES, XLA, STARTS)
]
# Compiled functions of the step, of validation, and of the samples that it speaks.
PLACED = ("training_step", "losses_and_path", "encode_voice", "encode_text", "decode")
SHOW_PLACEMENT = "import tensorflow as tf; tf.debugging.set_log_device_placement(True)"


@pytest.fixture(scope="module")
def placing_terminal(terminal, open_terminal):
    """Return a terminal whose errors name the device of every function."""
    placing = open_terminal(terminal.folder, TF_CPP_MIN_LOG_LEVEL="0")
    assert placing.python(SHOW_PLACEMENT).code == 0
    return placing


@pytest.mark.parametrize(("batching", "devices", "xla", "start"), CELLS)
def test_training(placing_terminal, start_workers, batching, devices, xla, start):
    flags, strategy, data_device, model_devices = DEVICES[devices]
    run = f"runs/{batching}-{devices.replace(' ', '-')}{xla}-{start.replace(' ', '-')}"
    command = (
        f"train --train-data my-corpus --run-dir {run} {BATCHING[batching]} {flags} {xla} "
        "--batch-size 4 --save-every 1 --evaluate-every 1 --set saving.log_every=1 "
        "--model-start-delay 0"
    )
    if start != "from base":
        command += " --config small.yaml"

    def train(arguments):
        if devices == "two workers":
            return start_workers(placing_terminal.folder, arguments)
        done = placing_terminal(f"myxtts {arguments} --virtual-devices 4")
        assert done.code == 0, done.errors[-3_000:]
        return done.errors

    if start == "resumed":
        train(f"{command} --max-steps 1")
        log = train(f"train my-corpus --resume {run} --max-steps 2 {flags} {xla}")
    else:
        origin = " --init-from base" if start == "from base" else ""
        log = train(f"{command} --max-steps 2{origin}")
    report = placing_terminal.report(run)
    assert (report["state"], report["steps"]) == ("complete", 2)
    assert report["traces"] == 1
    assert report["compilations_after_warmup"] == 0
    assert (report["compilations"] > 0) == (xla == "--xla")
    assert report["strategy"] == strategy
    assert report["mode"] == ("multi-gpu" if data_device else "single-gpu-buffered")
    assert report["model_devices"] == model_devices
    folder = placing_terminal.folder / run
    assert (folder / "checkpoints" / "step_00000002").is_dir()
    assert list((folder / "samples").glob("*2.wav"))
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["step"] == 2
    # Every loss takes part: the discriminator in the second half, the others from the first step.
    for loss in ("prior", "duration", "flow", "adversarial", "phoneme"):
        assert last[f"{loss}_loss"] > 0, loss
    assert last["validation_loss"] > 0
    if devices == "two workers":
        return
    placed = {name: set() for name in PLACED}
    for name, device in re.findall(
        r"Executing op __inference_(\w+)_\d+ in device \S+:(CPU:\d)", log
    ):
        if name in placed:
            placed[name].add(device)
    assert placed == {name: {model_devices[0]} for name in PLACED}


def test_a_vocoder_trains_mirrored(terminal):
    flags, strategy, data_device, model_devices = DEVICES["pipeline mirrored"]
    done = terminal(
        f"myxtts train --config small.yaml --train-data my-corpus --run-dir runs/vocoder {flags} "
        "--task vocoder --max-steps 2 --evaluate-every 1 --save-every 1 --virtual-devices 4 "
        "--model-start-delay 0"
    )
    assert done.code == 0, done.errors[-3_000:]
    report = terminal.report("runs/vocoder")
    assert (report["steps"], report["compilations_after_warmup"]) == (2, 0)
    assert (report["strategy"], report["data_device"]) == (strategy, data_device)
    assert report["model_devices"] == model_devices
