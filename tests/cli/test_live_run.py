"""The screens of a run in a real pseudo-terminal, kept as text in screens/.

`REWRITE_SCREENS=1 pytest tests/cli/test_live_run.py` writes them anew: look at them then.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from myxtts.cli.live_run import LiveRun

HERE = Path(__file__).parent
PROGRAM = [sys.executable, str(HERE / "live_run_program.py")]
SCENES = (
    "start",
    "counting",
    "middle",
    "warning",
    "after an evaluation",
    "after a resize",
    "end",
    "stopped",
)
NARROWER = {60: 48, 80: 60, 120: 70, 200: 90}


def kept_screen(name: str, now: str) -> str:
    file = HERE / "screens" / name
    if os.environ.get("REWRITE_SCREENS"):
        file.write_text(now, encoding="utf-8")
    return file.read_text(encoding="utf-8")


@pytest.mark.program
@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_screens(columns, open_terminal):
    terminal = open_terminal(PROGRAM, columns)
    screens = {}
    for scene in SCENES:
        screens[scene] = terminal.next_scene()
        if scene == "after an evaluation":
            terminal.resize(NARROWER[columns])
    assert terminal.close() == 0
    assert terminal.screen.cursor_is_shown
    text = "".join(f"== {name}\n" + "".join(f"{row}\n" for row in screens[name]) for name in SCENES)
    assert text == kept_screen(f"{columns}.txt", text)
    # Only one line of progress at a time, and none once the run has ended.
    assert all(sum("1,235/4,000" in row for row in rows) <= 1 for rows in screens.values())
    assert not any("/4,000" in row for row in (*screens["end"], *screens["stopped"]))


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
    assert result.stdout == kept_screen("log.txt", result.stdout)
    assert result.stderr == "WARNING clips/0007.wav: cannot be read; using another clip\n"


def test_what_a_killed_run_owed_is_not_a_line_of_the_warm_up(capsys):
    metrics = {"loss": 0.5, "useful_utilisation": 0.9, "data_wait_share": 0.0}
    with LiveRun() as live:
        live.on_warm_up(0, 1)
        live.on_warm_up(1, 1)
        live.on_step(20, 20, metrics)
    assert capsys.readouterr().out.splitlines()[-1].startswith("step 20/20  loss 0.500")
