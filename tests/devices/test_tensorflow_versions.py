"""The tests of memory isolation against other versions of TensorFlow than the installed one.

Each version gets a virtual environment with nothing but TensorFlow and pytest, which takes
minutes and some gigabytes: pytest -m slow tests/devices/test_tensorflow_versions.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSIONS = ("2.16", "2.21")


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Python of an environment with that TensorFlow, which is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "venv", folder)
        program = Path(folder) / "bin" / "python"
        packages = (f"tensorflow=={request.param}.*", "pytest")
        run(program, "-m", "pip", "install", "--quiet", "--no-cache-dir", *packages)
        found = run(program, "-c", "import tensorflow; print(tensorflow.__version__)")
        assert found.splitlines()[-1].startswith(f"{request.param}.")
        yield program


def run(*command: object) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [str(part) for part in command],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_memory_isolation_and_counters(python: Path) -> None:
    files = [
        "tests/test_gpu_memory_api_compatibility.py",
        "tests/devices/test_usage.py",
        "tests/devices/test_nvml.py",
    ]
    passed = run(python, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *files)
    assert "SKIPPED" not in passed
