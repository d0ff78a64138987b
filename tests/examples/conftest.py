"""The examples as a user runs them: in processes of their own, from another folder."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="session")
def command_folder(tmp_path_factory):
    """Return where a shell finds `myxtts`, also without an installation of the project."""
    folder = tmp_path_factory.mktemp("bin")
    command = folder / "myxtts"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m myxtts.cli.main "$@"\n')
    command.chmod(0o755)
    return folder


@pytest.fixture
def run_example(command_folder, user_environment, tmp_path):
    def run(name, *arguments, examples=EXAMPLES, path=None, **settings):
        program = shutil.which("bash") if name.endswith(".sh") else sys.executable
        path = path or f"{command_folder}:{user_environment['PATH']}"
        return subprocess.run(
            [program, str(examples / name), *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=user_environment | {"PATH": path} | settings,
            check=False,
        )

    return run


@pytest.fixture
def settings_file(miniature, tmp_path):
    """Return what makes a run take seconds."""
    file = tmp_path / "miniature.yaml"
    file.write_text(json.dumps(miniature(validation_fraction=0.3).as_dict()))
    return file
