"""The screens of a run in a real pseudo-terminal, and its lines in a log file."""

import subprocess
import sys
from pathlib import Path

import pytest

from myxtts.cli.console import LiveRun

PROGRAM = [sys.executable, str(Path(__file__).parent / "live_run_program.py")]
SCENES = ("start", "counting", "middle", "warning", "evaluated", "later", "end", "stopped")


@pytest.mark.program
@pytest.mark.parametrize("columns", [80, 120])
def test_a_terminal_shows_one_line_of_progress_and_whole_words(columns, open_terminal):
    terminal = open_terminal(PROGRAM, columns)
    screens = {scene: terminal.next_scene() for scene in SCENES}
    assert terminal.close() == 0
    assert terminal.screen.cursor_is_shown
    assert "preparing training clips 120/1,060" in screens["counting"][-1]
    assert "33 clips/s  ETA 0:2" in screens["counting"][-1]
    bars = [[row for row in rows if "━" in row] for rows in screens.values()]
    assert [len(rows) for rows in bars] == [1, 1, 1, 1, 1, 1, 0, 0]
    assert all(len(row) < columns - len("^C") for (row,) in bars[:6])
    metrics = [row for row in screens["end"] if "useful" in row and "loss" in row]
    assert len({row.index("loss") for row in metrics}) == 1
    rows = [row for row in screens["stopped"] if "myxtts " not in row]
    words = {word for row in rows for word in row.split()}
    assert {"Useful", "utilization:", "evaluation", "checkpoints."} <= words


@pytest.mark.program
def test_a_log_file_has_whole_lines_and_no_control_characters(user_environment, tmp_path):
    with open(tmp_path / "ready", "w") as ready:
        result = subprocess.run(
            PROGRAM,
            input="\n" * len(SCENES),
            capture_output=True,
            text=True,
            pass_fds=[ready.fileno()],
            env=user_environment | {"READY_FD": str(ready.fileno())},
            check=True,
        )
    shown = result.stdout + result.stderr
    assert {character for character in shown if not character.isprintable()} == {"\n"}
    assert "step 4,000/4,000" in result.stdout
    assert result.stderr.count("WARNING clips/0007.wav") == 1


def test_what_a_killed_run_owed_has_no_speed(capsys):
    metrics = {"loss": 0.5, "useful_utilisation": 0.9, "step_seconds": 0, "data_wait_seconds": 0}
    with LiveRun() as live:
        live.on_warm_up(1, 1)
        live.on_step(20, 20, metrics)
    assert capsys.readouterr().out.splitlines()[-1].startswith("step 20/20  ETA")


def test_the_eta_knows_that_later_steps_take_longer(capsys):
    now = 0.0

    def time_of_steps(count: int) -> float:
        return count + 3.0 * max(0, count - 20)

    metrics = {"loss": 0.5, "useful_utilisation": 0.9, "step_seconds": 1, "data_wait_seconds": 0}
    with LiveRun(lambda: now) as live:
        live.on_training(time_of_steps)
        for step in range(11):
            live.on_progress(step, 40)
            now += 1.0
        live.on_step(10, 40, metrics)
    # Ten steps of a second are left, and twenty of four.
    assert "ETA     1:3" in capsys.readouterr().out
