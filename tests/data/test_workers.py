import os
import signal
import subprocess
import sys
import time

PROGRAM = """
import os, time
from myxtts.data.workers import map_in_workers

def work(task):
    print(os.getpid(), flush=True)
    time.sleep(task)

if __name__ == "__main__":
    list(map_in_workers(work, [0, 0, 0, 600], 2))
"""


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_end_with_a_parent_that_was_killed(user_environment, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    parent = subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, text=True, env=user_environment
    )
    workers = {int(parent.stdout.readline()) for _ in range(4)}
    assert all(map(is_alive, workers))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 300
    while any(map(is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(is_alive, workers))
    parent.stdout.close()
