import signal
import socket
import subprocess
import sys

import pytest

from myxtts.errors import CheckpointError
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


def test_a_second_run_is_kept_out_until_the_first_is_killed(tmp_path, holder):
    owner = f"process {holder.pid} on {socket.gethostname()}"
    with pytest.raises(CheckpointError, match=owner), RunDir(tmp_path).lock():
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    for _ in range(2):
        with RunDir(tmp_path).lock():
            pass
