import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from myxtts.errors import CheckpointError
from myxtts.runs import run_dir
from myxtts.runs.run_dir import RunDir

HOLDER = """
import sys, time
from myxtts.runs.run_dir import RunDir
with RunDir(sys.argv[1]).lock():
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path, user_environment):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path],
        env=user_environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_run_is_kept_out_and_told_who_is_there(tmp_path, holder):
    expected = f"is in use by another run, process {holder.pid} on {socket.gethostname()}"
    with pytest.raises(CheckpointError, match=expected), RunDir(tmp_path).lock():
        pass


def test_the_lock_of_a_killed_run_is_stale(tmp_path, holder, caplog):
    caplog.set_level("INFO")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with RunDir(tmp_path).lock():
        assert f"process {holder.pid}" in caplog.text
        assert "taking over the stale lock" in caplog.text
    caplog.clear()
    with RunDir(tmp_path).lock():
        assert caplog.text == ""


@pytest.mark.parametrize("content", ["", "nonsense", '{"pid": "x"}', "{}"])
def test_whatever_stands_in_the_file_only_the_lock_counts(tmp_path, content):
    (tmp_path / ".lock").write_text(content)
    with RunDir(tmp_path).lock():
        pass


def test_without_locks_of_the_system_the_named_process_decides(tmp_path, monkeypatch, holder):
    monkeypatch.setattr(run_dir, "fcntl", None)
    with pytest.raises(CheckpointError, match=f"process {holder.pid}"), RunDir(tmp_path).lock():
        pass
    holder.kill()
    holder.wait()
    with RunDir(tmp_path).lock():
        pass
    other = {"pid": os.getpid(), "host": "another-machine"}
    (tmp_path / ".lock").write_text(json.dumps(other))
    with pytest.raises(CheckpointError, match="on another-machine"), RunDir(tmp_path).lock():
        pass
