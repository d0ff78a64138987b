"""How commands end that fail: errors that are the user's, and those that are not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from myxtts.cli import doctor
from myxtts.cli.main import main, report_failure
from myxtts.errors import DataError


def read_what_is_not_there():
    Path("none/metadata.csv").read_bytes()


def make_a_folder_below_a_file():
    Path("file").touch()
    Path("file/folder").mkdir()


def write_to_a_full_disk():
    # Only the open file notices, which does not tell its name.
    with open("/dev/full", "w") as file:
        file.write("much")


def refuse_with_a_reason():
    raise DataError("corpus: has no clips")


@pytest.fixture
def ended(monkeypatch, tmp_path, capsys):
    """Exit code and lines of a command that does what is handed in."""
    monkeypatch.chdir(tmp_path)

    def run(act, *flags):
        monkeypatch.setattr(doctor, "run", lambda options: act() or 0)
        code = main(["doctor", *flags])
        return code, capsys.readouterr().err.splitlines()

    return run


@pytest.mark.parametrize(
    ("act", "line"),
    [
        (read_what_is_not_there, "none/metadata.csv: No such file or directory"),
        (make_a_folder_below_a_file, "file/folder: Not a directory"),
        (write_to_a_full_disk, "No space left on device"),
        (refuse_with_a_reason, "corpus: has no clips"),
    ],
)
def test_what_the_user_can_mend_is_one_line(ended, act, line):
    assert ended(act) == (2, [f"myxtts doctor: {line}"])
    code, lines = ended(act, "--traceback")
    assert (code, lines[-1]) == (2, f"myxtts doctor: {line}")
    assert "Traceback (most recent call last):" in lines


def connect_where_nobody_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    socket.create_connection(address, timeout=5)


def use_a_closed_file_descriptor():
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    os.read(descriptor, 1)


def refuse_without_a_number():
    raise OSError("its name has a blank in it")


def look_up_what_is_not_there():
    return {}["nothing"]


@pytest.mark.parametrize(
    "act",
    [
        connect_where_nobody_listens,
        use_a_closed_file_descriptor,
        refuse_without_a_number,
        look_up_what_is_not_there,
    ],
)
def test_a_fault_of_the_program_is_not_laid_on_the_user(ended, act):
    code, lines = ended(act)
    assert code == 70
    assert lines[0] == "Traceback (most recent call last):"
    assert any(act.__name__ in line for line in lines)
    assert lines[-1].startswith("myxtts doctor: unexpected error")


@pytest.fixture
def diagnose_into(user_environment):
    def start(output):
        command = [sys.executable, "-m", "myxtts.cli.main", "diagnose", "--json"]
        return subprocess.run(
            command,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            env=user_environment,
            check=False,
        )

    return start


def test_output_that_nobody_reads(diagnose_into):
    reading, writing = os.pipe()
    os.close(reading)
    done = diagnose_into(writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_output_onto_a_full_disk(diagnose_into):
    with open("/dev/full", "w") as full:
        done = diagnose_into(full)
    assert done.returncode == 2
    assert done.stderr == "myxtts diagnose: standard output: No space left on device\n"


def test_too_little_memory_is_one_line(capsys):
    assert report_failure(MemoryError(), "train", show_traceback=False) == 2
    assert capsys.readouterr().err.startswith("myxtts train: out of memory; ")
