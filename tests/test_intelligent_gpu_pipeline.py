"""The GPU pipeline: both modes, their devices and their buffer, on virtual devices."""

import json
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from myxtts.config.config import DataConfig
from myxtts.config.loading import load_config
from myxtts.data.cache import open_cache
from myxtts.runs.run_dir import RunDir

GPUS = ("--config", "small.yaml", "--virtual-devices", "4")
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
    """Start `myxtts train` on the miniature; the process writes to files, so it never blocks."""
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
    output, errors = process.communicate(timeout=900)
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

    # Mels from the cache and from the data device are the same up to rounding.
    assert losses(tmp_path / "run") == pytest.approx(losses(trained_run), rel=2e-3)


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


PIPELINE = """
data:
  data_gpu: 0
  model_gpu: 1
  prefetch_buffer_size: 50
  model_start_delay: 2.0
  enable_memory_isolation: true
  data_gpu_memory: 8192
  model_gpu_memory: 16384
"""


def test_the_pipeline_in_yaml(tmp_path):
    (tmp_path / "config.yaml").write_text(PIPELINE, encoding="utf-8")
    assert load_config(tmp_path / "config.yaml").data == DataConfig(
        data_gpu=0,
        model_gpu=1,
        buffer_size=50,
        model_start_delay=2.0,
        enable_memory_isolation=True,
        data_gpu_memory_mb=8192,
        model_gpu_memory_mb=16384,
    )


def test_multi_gpu_mode(terminal):
    done = terminal(
        "python3 train_main.py --data-gpu 0 --model-gpu 1 --model-start-delay 0.5 "
        "--buffer-size 8 --enable-memory-isolation --data-gpu-memory 8192 "
        "--model-gpu-memory 16384 --enable-static-shapes --max-mel-frames 600 "
        "--gradient-accumulation-steps 2 --optimization-level experimental "
        "--train-data my-corpus --max-steps 1 --run-dir runs/pipeline",
        *GPUS,
    )
    assert done.code == 0, done.errors
    assert "Mode: multi-gpu; data on CPU:0, model on CPU:1; prefetching" in done.output
    assert "memory isolation is off: virtual devices have no memory" in done.errors
    report = terminal.report("runs/pipeline")
    assert (report["mode"], report["data_device"]) == ("multi-gpu", "CPU:0")
    assert (report["strategy"], report["model_devices"]) == ("OneDeviceStrategy", ["CPU:1"])
    assert report["buffer_size"] == 8


@pytest.mark.parametrize(
    ("flags", "mode", "said"),
    [
        ("", "Mode: one device, buffered; data on ", ""),
        ("--buffer-size 50", "prefetching up to 50 batches", ""),
        (
            "--data-gpu 0 --model-gpu 9",
            "Mode: one device, buffered",
            "multi-GPU mode is off: GPU 9 does not exist",
        ),
        ("--multi-gpu --visible-gpus 0,1", "model mirrored on CPU:0, CPU:1", ""),
        ("--visible-gpus 1", "model on CPU:1", ""),
        (
            "--multi-gpu --data-gpu 0 --model-gpu 1",
            "Mode: multi-gpu; data on CPU:0, model on CPU:1",
            "--multi-gpu does nothing, because model_gpu is 1",
        ),
        (
            "--data-gpu-memory 8192",
            "Mode: one device, buffered",
            "--data-gpu-memory does nothing without --enable-memory-isolation",
        ),
    ],
)
def test_the_mode_and_the_devices_are_printed(terminal, flags, mode, said):
    done = terminal(f"myxtts train --dry-run --train-data my-corpus {flags}", *GPUS)
    assert done.code == 0, done.errors
    assert mode in done.output
    assert said in done.errors


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))
