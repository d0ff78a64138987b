"""The examples in Python."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_cloning_a_voice(run_example, trained_run, demo_corpus, tmp_path):
    recordings = sorted((demo_corpus / "wavs").glob("*-rob.wav"))[:2]
    result = run_example("clone_a_voice.py", trained_run, *recordings, "--text", "Good morning.")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "Encoded 2 recordings" in result.stdout
    names = ("cloned.wav", "cloned-seed-1.wav", "cloned-faster.wav")
    plain, other, faster = (soundfile.read(tmp_path / name)[0] for name in names)
    assert faster.size < plain.size == other.size
    assert np.abs(plain - other).max() > 0


def test_a_voice_that_cannot_be_read(trained_run, tmp_path, monkeypatch, capsys):
    notes = tmp_path / "notes.wav"
    notes.write_text("this is not audio")
    program = EXAMPLES / "clone_a_voice.py"
    monkeypatch.setattr(sys, "argv", [program.name, str(trained_run), str(notes)])
    assert runpy.run_path(str(program))["main"]() == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"clone_a_voice.py: {notes}: cannot read audio")


@pytest.mark.training
def test_the_table_of_strategies_and_equal_replicas(run_example):
    result = run_example("gpu_strategy_demo.py")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    _, *rows, empty, first_step, second_step, compared = result.stdout.splitlines()
    assert [row.split(maxsplit=3) for row in rows] == [
        ["0", "off", "DefaultDistributionStrategy", "CPU:0"],
        ["0", "on", "DefaultDistributionStrategy", "CPU:0"],
        ["1", "off", "OneDeviceStrategy", "CPU:0"],
        ["1", "on", "OneDeviceStrategy", "CPU:0"],
        ["2", "off", "OneDeviceStrategy", "CPU:0"],
        ["2", "on", "MirroredStrategy", "CPU:0, CPU:1"],
        ["4", "off", "OneDeviceStrategy", "CPU:0"],
        ["4", "on", "MirroredStrategy", "CPU:0, CPU:1, CPU:2, CPU:3"],
    ]
    assert empty == ""
    assert first_step.startswith("Step 1 on 2 replicas: loss ")
    assert second_step.startswith("Step 2 on 2 replicas: loss ")
    assert compared.endswith("differ by at most 0")
