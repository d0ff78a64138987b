"""Cheap mistakes are found before TensorFlow is loaded; benchmarks/mistakes.py has the seconds."""

import importlib.util
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, sys
from myxtts.cli.main import main
for command in json.loads(sys.argv[1]):
    try:
        code = main(command)
    except SystemExit as end:
        code = end.code
    assert code == 2, command
    assert 'tensorflow' not in sys.modules, command
"""


@pytest.fixture
def mistakes():
    spec = importlib.util.spec_from_file_location("mistakes", ROOT / "benchmarks" / "mistakes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_cheap_mistake_loads_tensorflow(mistakes, tmp_path, user_environment):
    mistakes.make_surroundings(tmp_path)
    run = tmp_path / "run"
    shutil.copytree(ROOT / "tests/runs/golden", run / "checkpoints" / "step_00000003")
    commands = [
        [str(run) if word == "RUN" else word for word in shlex.split(command)]
        for command in mistakes.MISTAKES.values()
    ]
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        cwd=tmp_path,
        env=user_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    messages = result.stderr.splitlines()
    assert len(messages) == len(commands)
    assert all(line.startswith("myxtts ") for line in messages)
