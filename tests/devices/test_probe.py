"""How failures of TensorFlow are reported; tests of `myxtts doctor` ask the installed one."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from myxtts.devices.doctor import SeenGpu, TensorFlowView, ask_tensorflow, read_answer


def python_that(folder: Path, does: str) -> str:
    """Return a program in place of Python."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


@pytest.mark.parametrize(
    ("does", "failure"),
    [
        ("echo Traceback >&2; echo \"ImportError: no such thing\" >&2; exit 1", "ImportError: no"),
        ("kill -ILL $$", "killed by SIGILL"),
        ("exit 3", "exited with code 3"),
    ],
)  # fmt: skip
def test_a_tensorflow_that_does_not_start(tmp_path: Path, does: str, failure: str) -> None:
    view = ask_tensorflow(python_that(tmp_path, does))
    assert view.version is None
    assert view.failure is not None
    assert view.failure.startswith(failure)


def test_without_tensorflow(tmp_path: Path) -> None:
    missing = "No module named 'tensorflow'"
    (tmp_path / "tensorflow.py").write_text(f"raise ModuleNotFoundError({missing!r})")
    paths = f'"{tmp_path}:$PYTHONPATH"'
    without_tensorflow = python_that(tmp_path, f'PYTHONPATH={paths} "{sys.executable}" "$@"')
    assert ask_tensorflow(without_tensorflow).failure == f"ModuleNotFoundError: {missing}"


def test_an_answer_with_gpus() -> None:
    answer = {
        "version": "2.21.0",
        "cuda_version": "12.5.1",
        "cudnn_version": "9",
        "failure": None,
        "gpus": [
            {"name": "A", "compute_capability": [8, 6], "failure": None},
            {"name": "B", "compute_capability": None, "failure": "no kernel image"},
        ],
    }
    assert read_answer(json.dumps(answer), ("a word",)) == TensorFlowView(
        version="2.21.0",
        cuda_version="12.5.1",
        cudnn_version="9",
        gpus=(SeenGpu("A", (8, 6)), SeenGpu("B", None, "no kernel image")),
        words=("a word",),
    )
