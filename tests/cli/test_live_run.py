"""The lines of a run, in a log and on a terminal of 80 columns."""

import dataclasses
import logging
from pathlib import Path

import pytest

from myxtts.cli import console
from myxtts.cli.console import LiveRun, say
from myxtts.training.report import RunReport

METRICS = {"loss": 0.621, "useful_utilisation": 0.934, "step_seconds": 0.8, "data_wait_seconds": 0}
SPEAK = "myxtts synthesize runs/1 --text 'Hello there.' --language en --out hello.wav"


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def report(state: str, steps: int) -> RunReport:
    """Return a report with values for what is shown, and None for the rest."""
    values = dict.fromkeys(field.name for field in dataclasses.fields(RunReport))
    shown = {
        "run_dir": Path("runs/1"),
        "state": state,
        "planned_steps": 4_000,
        "steps": steps,
        "valid_work_ratio": 0.985,
        "useful_utilisation": 0.92,
        "steady_utilisation": 0.981,
        "seconds": {"wall": 3_480.0, "compute": 3_250.0, "evaluation": 150.0, "start_up": 80.0},
        "best": {"metric": "validation_mel_distance", "step": 2_000, "value": 1.665},
        "advice": ["Most time not spent training: evaluation (4.3%)."],
    }
    return RunReport(**values | shown)


@pytest.mark.parametrize("columns", [80, None])
def test_a_run_in_lines(capsys, monkeypatch, columns):
    monkeypatch.setattr(console, "terminal_width", lambda: columns)
    clock = Clock()
    with LiveRun(clock) as live:
        live.on_prepare("training", 0, 1_060)
        live.on_notice("Run folder: runs/1")
        for step in range(1_181, 1_235):
            clock.now += 0.8
            live.on_progress(step, 4_000)
            live.on_step(step, 4_000, METRICS)
        logging.getLogger("myxtts").warning("clips/0007.wav: cannot be read")
        validation = {"validation_loss": 0.702, "validation_prior_loss": 0.4}
        live.on_evaluation(1_234, validation | {"validation_flow_loss": 0.302})
        clock.now += 2_000
        live.on_step(4_000, 4_000, METRICS)
        live.on_end(report("interrupted", 2_500), SPEAK)
    lines = capsys.readouterr().out.splitlines()
    metrics = [line for line in lines if "useful" in line and "loss" in line]
    assert 3 <= len(metrics) <= 6  # the first, one every 15 seconds, and the last
    assert len({line.index("loss") for line in metrics}) == 1
    assert all(word in metrics[0] for word in ("1,181/4,000", "ETA", "0.621", "93%", "steps/s"))
    if columns:
        assert max(map(len, lines)) <= columns


def test_a_command_that_is_wrapped_can_be_copied(capsys, monkeypatch):
    monkeypatch.setattr(console, "terminal_width", lambda: 60)
    say(f"Next: {SPEAK}")
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) < 60
    assert " ".join(shown.replace("\\\n", " ").split()) == f"Next: {SPEAK}"


def test_what_a_killed_run_owed_has_no_speed(capsys):
    with LiveRun() as live:
        live.on_warm_up(1, 1)
        live.on_step(20, 20, METRICS | {"step_seconds": 0})
    assert capsys.readouterr().out.splitlines()[-1].startswith("step 20/20  ETA")


def test_the_eta_knows_that_later_steps_take_longer(capsys):
    clock = Clock()
    with LiveRun(clock) as live:
        live.on_training(lambda count: count + 3.0 * max(0, count - 20))
        for step in range(11):
            live.on_progress(step, 40)
            clock.now += 1.0
        live.on_step(10, 40, METRICS)
    # Ten steps of a second are left, and twenty of four.
    assert "ETA     1:3" in capsys.readouterr().out
