"""Commands and snippets that train, on logical CPU devices where they name GPUs."""

from __future__ import annotations

import json
import signal

import pytest

# A model that trains in seconds; four devices for all, since a process has one set of them.
SMALL = ("--config", "small.yaml")
GPUS = (*SMALL, "--virtual-devices", "4")
REPORT = {
    "steps": int,
    "traces": int,
    "compilations": int,
    "compilations_after_warmup": int,
    "valid_frame_ratio": float,
    "valid_work_ratio": float,
    "useful_utilisation": float,
    "seconds": dict,
    "shapes": list,
    "rejected": dict,
    "mode": str,
    "strategy": str,
    "model_devices": list,
    "buffer_size": int,
    "advice": list,
}


@pytest.fixture(scope="module")
def fixed(terminal):
    return terminal(
        "python3 train_main.py --enable-static-shapes --max-text-length 200 --max-mel-frames 600 "
        "--batch-size 4 --model-size tiny --optimization-level basic --train-data my-corpus "
        "--val-data my-corpus --max-steps 2 --run-dir runs/fixed --save-every 1 "
        "--evaluate-every 1 --seed 3",
        *GPUS,
        "--set=saving.log_every=1",
    )


def test_static_shapes_are_printed_and_kept(fixed, terminal):
    assert fixed.code == 0, fixed.errors
    block, _, rest = fixed.output.partition("Final Training Configuration")[2].partition("Mode: ")
    assert "Static shapes (pad_to_fixed_length): True" in block
    assert "Static shapes: ENABLED, 1 shape" in block
    assert "max_text_length: 200" in block
    assert "max_mel_frames: 600" in block
    # Before step one: the mode and the steps come after it.
    assert rest
    report = terminal.report("runs/fixed")
    assert report["shapes"] == [[4, 200, 600]]
    assert (report["steps"], report["traces"], report["compilations_after_warmup"]) == (2, 1, 0)


def test_what_programs_read_of_a_run(fixed, terminal):
    report = terminal.report("runs/fixed")
    assert {name: type(report[name]) for name in REPORT} == REPORT
    assert report["seconds"]["wall"] > 0
    assert report["mode"] == "single-gpu-buffered"
    assert report["strategy"] == "OneDeviceStrategy"
    assert isinstance(report["data_device"], str)
    lines = (terminal.folder / "runs" / "fixed" / "metrics.jsonl").read_text().splitlines()
    metrics = [json.loads(line) for line in lines]
    assert [line["step"] for line in metrics] == [1, 2]
    always = {"step", "time", "loss", "learning_rate", "step_seconds", "data_wait_seconds"}
    parts = {"prior_loss", "duration_loss", "flow_loss"}
    assert always | parts | {"valid_frame_ratio"} <= metrics[0].keys()
    assert metrics[0]["loss"] == pytest.approx(sum(metrics[0][part] for part in parts))


def test_both_names_of_the_flag_for_static_shapes(terminal):
    command = "myxtts train --dry-run --json --train-data my-corpus --max-mel-frames 600"
    plans = [
        terminal(f"{command} {flag}", *GPUS).output
        for flag in ("--enable-static-shapes", "--pad-to-fixed-length")
    ]
    assert json.loads(plans[0]) == json.loads(plans[1])
    assert json.loads(plans[0])["shapes"] == [[4, 200, 600]]


def test_clips_over_the_limits_are_left_out_and_counted(terminal):
    done = terminal(
        "myxtts train --dry-run --json --train-data my-corpus --max-mel-frames 220",
        *GPUS,
        "--set=data.max_rejected_fraction=1",
    )
    assert done.code == 0, done.errors
    plan = json.loads(done.output)
    assert sum(plan["rejected"].values()) > 0
    assert sum(plan["clips_of_shapes"]) + sum(plan["rejected"].values()) == 18


def test_retracing_is_diagnosed_without_training(terminal):
    done = terminal("python3 utilities/diagnose_retracing.py --config configs/config.yaml")
    assert done.code == 0, done.errors
    assert "Traces: " in done.output
    assert "XLA compilations: " in done.output
    again = terminal(
        "myxtts diagnose --config configs/config.yaml --set data.batching=dynamic --xla"
    )
    assert again.code == 1
    assert "bucketed" in again.output


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
        ("", "Mode: single-gpu-buffered (no separate GPU for data); data on ", ""),
        ("--buffer-size 50", "prefetching up to 50 batches", ""),
        (
            "--data-gpu 0 --model-gpu 9",
            "Mode: single-gpu-buffered",
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
            "Mode: single-gpu-buffered",
            "--data-gpu-memory does nothing without --enable-memory-isolation",
        ),
    ],
)
def test_the_mode_and_the_devices_are_printed(terminal, flags, mode, said):
    done = terminal(f"myxtts train --dry-run --train-data my-corpus {flags}", *GPUS)
    assert done.code == 0, done.errors
    assert mode in done.output
    assert said in done.errors


def test_too_few_gpus_are_told_and_stop_strict_runs(terminal):
    done = terminal("myxtts train --dry-run --multi-gpu", *SMALL)
    assert done.code == 0, done.errors
    assert "--multi-gpu does nothing: it requires at least 2 GPUs (found 0)" in done.errors
    done = terminal("myxtts train --dry-run --multi-gpu --strict-devices", *SMALL)
    assert done.code == 2
    line = "myxtts train: --multi-gpu: requires at least 2 GPUs (found 0); leave out "
    assert done.errors.splitlines()[-1].startswith(line)


STRATEGIES = """
    from myxtts.devices.discovery import find_accelerators
    from myxtts.utils.commons import setup_gpu_strategy

    for visible_gpus in ("0", "0,1"):
        find_accelerators(virtual_devices=4, visible_gpus=visible_gpus)
        for multi_gpu in (False, True):
            strategy = setup_gpu_strategy(enable_multi_gpu=multi_gpu)
            print(type(strategy).__name__, strategy.num_replicas_in_sync)
    find_accelerators()
    print(setup_gpu_strategy().num_replicas_in_sync)
"""


def test_the_table_of_strategies(terminal):
    done = terminal.python(STRATEGIES)
    assert done.output.splitlines() == [
        "OneDeviceStrategy 1",
        "OneDeviceStrategy 1",
        "OneDeviceStrategy 1",
        "MirroredStrategy 2",
        "1",
    ], done.errors


TRAINER = """
    from myxtts.config.config import XTTSConfig
    from myxtts.config.loading import read_yaml
    from myxtts.data.opening import open_corpus
    from myxtts.training.trainer import XTTSTrainer

    config = XTTSConfig(
        **read_yaml("miniature"), train_data="my-corpus", virtual_devices=4, max_steps=1,
        multi_gpu=True, visible_gpus="0,1",
    )
    report = XTTSTrainer(config, open_corpus(config), "runs/trainer").fit()
    print(report.strategy, report.model_devices)
"""
ONE_CALL = """
    import myxtts
    from myxtts.config.loading import read_yaml

    config = myxtts.XTTSConfig(
        **read_yaml("miniature"), train_data="my-corpus", virtual_devices=4, max_steps=1,
        data_gpu=0, model_gpu=2,
    )
    report = myxtts.train(config, "runs/one-call")
    print(report.strategy, report.model_devices, report.data_device)
"""


@pytest.mark.parametrize(
    ("snippet", "devices"),
    [
        (TRAINER, "MirroredStrategy ['CPU:0', 'CPU:1']\n"),
        (ONE_CALL, "OneDeviceStrategy ['CPU:2'] CPU:0\n"),
    ],
)
def test_from_python_the_devices_are_those_of_the_configuration(terminal, snippet, devices):
    done = terminal.python(snippet)
    assert done.code == 0, done.errors
    assert done.output == devices


@pytest.mark.usefixtures("fixed")
def test_a_resumed_run_that_is_terminated_is_saved(terminal):
    metrics = terminal.folder / "runs" / "fixed" / "metrics.jsonl"
    lines_before = len(metrics.read_text().splitlines())
    terminal.start("myxtts train --resume runs/fixed --max-steps 1000000 --virtual-devices 4")
    terminal.send_signal_once(
        lambda: len(metrics.read_text().splitlines()) > lines_before, signal.SIGTERM
    )
    done = terminal.wait()
    assert done.code == 143, done.errors
    report = terminal.report("runs/fixed")
    assert report["steps"] > 2
    saved = sorted((terminal.folder / "runs" / "fixed" / "checkpoints").iterdir())
    assert saved[-1].name == f"step_{report['steps']:08d}"


@pytest.mark.usefixtures("fixed")
def test_a_run_starts_from_another_and_is_interrupted_early(terminal):
    terminal.start(
        "myxtts train --init-from runs/fixed --epochs 1 --set training.learning_rate=1e-3 "
        "--train-data my-corpus --run-dir runs/second --virtual-devices 4"
    )
    terminal.send_signal_once(lambda: terminal.said("Run folder: runs/second"), signal.SIGINT)
    done = terminal.wait()
    assert done.code == 130, done.errors
    assert "; learning rate: 0.001\n" in done.output


def test_without_a_corpus_the_demo_corpus_is_used(terminal):
    done = terminal("myxtts train --dry-run --set learning_rate=1e-4", *GPUS)
    assert done.code == 0, done.errors
    assert "No corpus given: using the demo corpus in demo/corpus" in done.output
    assert "; learning rate: 0.0001\n" in done.output
