"""`myxtts doctor` as a user types it, and its checks on machines that lack something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from myxtts.cli import doctor
from myxtts.cli.main import main
from myxtts.devices.machine import Memory

ROOT = Path(__file__).parents[2]


@pytest.mark.program
def test_in_a_process_of_its_own(tmp_path: Path) -> None:
    """Without a GPU everything else is in order."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [sys.executable, "-m", "myxtts.cli.main", "doctor"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    sections: dict[str, list[str]] = {}
    for line in lines[:-2]:
        if line.startswith("  "):
            sections[list(sections)[-1]].append(line.split()[1])
        else:
            sections[line] = []
    assert sections == {
        "Needed": ["Memory", "Disk", "Audio", "Phonemes", "TensorFlow"],
        "For training on GPUs": ["CUDA", "Driver", "GPU"],
        "Extras": ["ffmpeg", "Evaluation"],
    }
    assert "reads flac, mp3, ogg, wav" in done.stdout
    [gpu] = [line for line in lines if line.split()[1:2] == ["GPU"]]
    assert gpu.startswith("  note    GPU         none: ")
    assert "training runs on the CPU" in gpu
    assert lines[-1] == "Nothing is broken: ready to train on the CPU, which is slow."


@pytest.mark.program
def test_json_and_what_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "soxr", None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert main(["doctor", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is False
    broken = [check for check in answer["checks"] if check["state"] == "broken"]
    assert [check["name"] for check in broken] == ["Audio"]
    assert "soxr" in broken[0]["text"]
    assert "install --force-reinstall soundfile soxr" in broken[0]["remedy"]
    assert answer["machine"]["hidden_by"] == "-1"
    assert answer["tensorflow"]["version"] == version("tensorflow")
    assert answer["tensorflow"]["failure"] is None
    assert answer["tensorflow"]["gpus"] == []
    assert any("cuda" in line.lower() for line in answer["tensorflow"]["words"])
    assert "cards" in answer["nvml"]


@pytest.mark.parametrize(
    ("free_mb", "state", "says"),
    [
        (8_000, "fine", "7.8 GB of 15.6 GB free"),
        (3_000, "note", "4.0 GB or more recommended"),
        (500, "broken", "1.5 GB or more needed"),
    ],
)
def test_memory(monkeypatch: pytest.MonkeyPatch, free_mb: int, state: str, says: str) -> None:
    memory = Memory(16_000, free_mb)
    monkeypatch.setattr("myxtts.devices.machine.read_memory", lambda: memory)
    finding = doctor.check_memory()
    assert finding.state == state
    assert says in finding.text
    assert (finding.remedy is None) == (state == "fine")


def test_a_disk_that_cannot_be_written() -> None:
    finding = doctor.check_disk(Path("/proc"))
    assert finding.state == "broken"
    assert "--run-dir" in (finding.remedy or "")


def test_phonemes_that_are_missing() -> None:
    """In a process of its own: espeak-ng cannot be unloaded from this one."""
    program = (
        "import dataclasses, json, sys\n"
        "sys.modules['espeakng_loader'] = None\n"
        "from myxtts.cli.doctor import check_phonemes\n"
        "print(json.dumps(dataclasses.asdict(check_phonemes())))"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    finding = json.loads(done.stdout)
    assert finding["state"] == "broken"
    assert "espeakng_loader" in finding["text"]
    assert "--set text.tokens=graphemes" in finding["remedy"]


def test_phonemes_of_one_language():
    assert doctor.check_phonemes().text == "espeak-ng speaks en (həlˈoʊ), fa (salˈɑm)"
    german = doctor.check_phonemes("de")
    assert (german.state, german.text.split(" (")[0]) == ("fine", "espeak-ng speaks de")
    unknown = doctor.check_phonemes("qqq")
    assert unknown.state == "broken"
    assert "text.tokens=graphemes" in unknown.remedy
