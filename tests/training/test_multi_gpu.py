"""The data device and the model device of a run, on virtual devices, in processes of their own."""

import json
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from myxtts.data.features.cache import open_cache
from myxtts.runs.run_dir import RunDir

# Says of each operation which device it is placed on.
PLACEMENT_PROGRAM = """
import sys
import tensorflow as tf
tf.debugging.set_log_device_placement(True)
from myxtts.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def train(miniature, user_environment, tmp_path):
    """Starts `myxtts train` on the miniature; the process writes to files, so it never blocks."""
    (tmp_path / "config.yaml").write_text(json.dumps(miniature().as_dict()))

    def start(*flags, program=("-m", "myxtts.cli.main"), cache=None, **environment):
        arguments = ["train", "--config", str(tmp_path / "config.yaml"), *flags]
        if "--run-dir" not in flags:
            arguments += ["--run-dir", str(tmp_path / "run")]
        if cache is not None:
            arguments += ["--set", f"data.cache_dir={cache}"]
        return subprocess.Popen(
            [sys.executable, *program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=user_environment | environment,
        )

    return start


def finished(process):
    output, errors = process.communicate(timeout=240)
    return process.returncode, output, errors


@pytest.mark.usefixtures("corpus")  # is prepared, so that no other mel is computed
def test_producer_and_step_are_on_their_devices(train, tmp_path):
    flags = ["--virtual-devices", "3", "--data-gpu", "1", "--model-gpu", "2"]
    code, output, errors = finished(
        train(
            *flags,
            *("--model-start-delay", "3"),
            program=("-c", PLACEMENT_PROGRAM),
            TF_CPP_MIN_LOG_LEVEL="0",
        )
    )
    assert code == 0, errors
    assert "Mode: multi-gpu; data on CPU:1, model on CPU:2" in output
    start = output.index("data device started; model starts in 3.0 s, when 4 batches are ready\n")
    started = re.search(r"\nmodel started after (\S+) s with (\d) batches ready\n", output[start:])
    assert float(started[1]) >= 3
    assert 4 <= int(started[2]) <= 6
    placed = re.findall(r"(\S+): \((\w+)\): /job:\S+/device:(CPU:\d)", output + errors)

    def devices_of(operation):
        return {device for _, what, device in placed if what == operation}

    # The vocoder, which speaks the sample, calls its transforms stft.
    assert {device for name, _, device in placed if name in ("rfft", "rfft_1")} == {"CPU:1"}
    assert devices_of("DepthwiseConv2dNativeBackpropFilter") == {"CPU:2"}
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["mode"] == "multi-gpu"
    assert report["data_device"] == "CPU:1"
    assert report["model_devices"] == ["CPU:2"]
    assert report["seconds"]["start_up"] > 3
    assert report["compilations_after_warmup"] == 0
    assert report["traces"] == 1


def test_the_other_gpus_mirror_the_model(train, tmp_path, trained_run):
    flags = ["--verbose", "--virtual-devices", "3", "--data-gpu", "0", "--model-gpu", "1,2"]
    flags += ["--enable-memory-isolation", "--model-start-delay", "0"]
    code, _, errors = finished(train(*flags))
    assert code == 0, errors
    assert "MirroredStrategy on CPU:1, CPU:2, because model_gpu is 1,2" in errors
    assert "memory isolation is off: virtual devices have no memory of their own" in errors
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["strategy"] == "MirroredStrategy"
    assert report["mode"] == "multi-gpu"
    assert report["data_device"] == "CPU:0"
    assert report["model_devices"] == ["CPU:1", "CPU:2"]

    def losses(run):
        return [line["loss"] for line in RunDir(run).metric_lines()]

    # Mels from the cache and from the data device are the same but for rounding.
    assert losses(tmp_path / "run") == pytest.approx(losses(trained_run), rel=2e-3)


@pytest.mark.parametrize(
    ("flags", "reason", "model"),
    [
        (
            ["--data-gpu", "0", "--model-gpu", "1"],
            "GPU 0, 1 does not exist (found 0 GPUs)",
            "model on CPU:0",
        ),
        (
            ["--virtual-devices", "3", "--data-gpu", "1", "--model-gpu", "1,2"],
            "GPU 1 cannot be both data GPU and model GPU",
            "model mirrored on CPU:1, CPU:2",
        ),
    ],
)
def test_a_mode_that_cannot_be_falls_back(train, flags, reason, model):
    code, output, errors = finished(train(*flags, "--dry-run"))
    assert code == 0
    assert f"multi-GPU mode is off: {reason}; continuing in single-GPU buffered mode" in errors
    mode = "Mode: single-gpu-buffered (no separate GPU for data); data on CPU:0"
    assert f"{mode}, {model}; prefetching up to" in output
    code, output, errors = finished(train(*flags, "--dry-run", "--strict-devices"))
    assert code == 2
    assert errors.strip().splitlines()[-1].startswith(f"myxtts train: multi-GPU mode: {reason}")


@pytest.mark.parametrize("mode", ["single", "multi"])
def test_a_corrupt_clip_ends_the_run_with_one_line(train, tmp_path, mode):
    cache_root = tmp_path / "cache"
    assert finished(train("--dry-run", cache=cache_root))[0] == 0
    caches = [open_cache(file.parent) for file in cache_root.glob("*/cache.json")]
    training = max(caches, key=len)
    # A clip that no longer is what it was: in one mode its mels, in both its text.
    tokens = np.load(training.folder / "tokens.npy", mmap_mode="r+")
    tokens[training.index[5]["tokens_start"]] = 9_999
    tokens.flush()
    flags = ["--virtual-devices", "2", "--data-gpu", "0", "--model-gpu", "1"]
    code, _, errors = finished(train(*(flags if mode == "multi" else []), cache=cache_root))
    assert code == 2
    assert training.audio_path(5).name in errors.splitlines()[-1]
    assert "damaged" in errors.splitlines()[-1]
    assert "Traceback" not in errors


def test_an_interrupt_while_the_producer_works_ends_everything(train):
    flags = ["--virtual-devices", "2", "--data-gpu", "0", "--model-gpu", "1"]
    process = train(*flags, "--max-steps", "100000", "--model-start-delay", "600")
    for line in process.stdout:
        if line.startswith("Run folder"):
            break
    process.send_signal(signal.SIGINT)
    code, _, errors = finished(process)
    assert code == 130
    # On a busy machine it may be ended before it has unwound.
    assert errors.splitlines()[-1] in ("myxtts train: interrupted", "myxtts: interrupted")
