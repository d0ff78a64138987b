"""Plays the scenes of a run in the live view, and waits for a line of input after each."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from myxtts.cli import console
from myxtts.cli.console import LogLines
from myxtts.training.report import RunReport

SPEAK = "myxtts synthesize runs/1 --text 'Hello there.' --language en"


class Clock:
    """Stands still but for what a scene takes, so that every number is the same each time."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def wait(live: console.LiveRun) -> None:
    live._progress._bar.refresh()
    os.write(int(os.environ["READY_FD"]), b".")
    sys.stdin.readline()


def step(live: console.LiveRun, clock: Clock, number: int, seconds: float = 0.8) -> None:
    clock.now += seconds
    live.on_progress(number, 4_000)
    if number % 10 == 0:
        metrics = {"loss": 0.621, "prior_loss": 0.309, "duration_loss": 0.104, "flow_loss": 0.208}
        metrics |= {"useful_utilisation": 0.934, "step_seconds": 0.799, "data_wait_seconds": 0.001}
        live.on_step(number, 4_000, metrics)


def main() -> None:
    logging.basicConfig(level=logging.INFO, handlers=[LogLines()])
    clock = Clock()
    with console.LiveRun(clock) as live:
        live.on_phase("loading TensorFlow")
        clock.now += 3
        wait(live)
        for done in range(0, 121, 20):
            live.on_prepare("training", done, 1_060)
            clock.now += 0.6
        wait(live)
        live.on_notice("Run folder: runs/1")
        live.on_phase("first step")
        for number in range(1_181, 1_235):
            step(live, clock, number)
        wait(live)
        live.on_evaluating(1_234)
        logging.getLogger("myxtts").warning("clips/0007.wav: cannot be read; using another clip")
        wait(live)
        clock.now += 5
        validation = {"validation_loss": 0.702, "validation_prior_loss": 0.4}
        live.on_evaluation(1_234, validation | {"validation_flow_loss": 0.302})
        step(live, clock, 1_235)
        wait(live)
        wait(live)  # for a resize in between
        step(live, clock, 4_000, seconds=2_000)
        live.on_end(
            report("complete", 4_000), f"{SPEAK} --speaker-wav wavs/0001.wav --out hello.wav"
        )
    wait(live)
    with console.LiveRun(clock) as live:
        live.on_phase("first step")
        step(live, clock, 2_500)
        live.on_end(report("interrupted", 2_500), f"{SPEAK} --voice anna --out hello.wav")


def report(state: str, steps: int) -> RunReport:
    seconds = {"wall": 3_480.0, "compute": 3_250.0, "evaluation": 150.0, "start_up": 80.0}
    return RunReport(
        run_dir=Path("runs/1"),
        state=state,
        interrupted_by="SIGINT" if state == "interrupted" else None,
        planned_steps=4_000,
        steps=steps,
        traces=3,
        compilations=0,
        compilations_after_warmup=0,
        valid_frame_ratio=0.961,
        valid_work_ratio=0.985,
        useful_utilisation=0.92,
        steady_utilisation=0.981,
        seconds=seconds,
        shapes=[[16, 200, 352]],
        rejected={},
        mode="single-gpu-buffered",
        strategy="default",
        data_device="CPU:0",
        model_devices=["CPU:0"],
        buffer_size=50,
        buffer_size_at_end=50,
        peak_memory_mb={},
        gpus={},
        best={"metric": "validation_mel_distance", "step": 2_000, "value": 1.665},
        advice=["Most time not spent training: evaluation (4.3%)."],
    )


if __name__ == "__main__":
    main()
    os.write(int(os.environ["READY_FD"]), b".")
    sys.stdin.readline()
