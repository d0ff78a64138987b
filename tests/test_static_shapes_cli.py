"""Static shapes from the command line, as typed."""

from __future__ import annotations

import json
import signal

import pytest

from myxtts.config.config import LossParts

# A model that trains in seconds; four devices for all, since a process has one set of them.
GPUS = ("--config", "small.yaml", "--virtual-devices", "4")
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
    assert "Static shapes (pad_to_fixed_length): True" in map(str.strip, block.splitlines())
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
    parts = {f"{name}_loss" for name in LossParts._fields}
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


@pytest.mark.usefixtures("fixed")
def test_a_resumed_run_that_is_terminated_is_saved(terminal):
    metrics = terminal.folder / "runs" / "fixed" / "metrics.jsonl"
    lines_before = len(metrics.read_text().splitlines())
    terminal.start(
        "myxtts train my-corpus --val-data my-corpus --resume runs/fixed --max-steps 1000000 "
        "--virtual-devices 4"
    )
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


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))
