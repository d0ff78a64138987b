import os
import signal
import subprocess
import sys
import time

import pytest

WORK = """
import os, time

def work(task):
    os.write(1, b"%d\\n" % os.getpid())  # in one piece, as other workers write too
    time.sleep(task)
"""
PROGRAM = """
from myxtts.data.workers import map_in_workers
from work import work

list(map_in_workers(work, [0, 0, 0, 600], 2))
"""
COMMAND = """
import sys
from myxtts.data.workers import map_in_workers
from myxtts.training.interruption import signals_interrupt
from work import work

try:
    with signals_interrupt():
        list(map_in_workers(work, [0, 0, 0, 600], 2))
except KeyboardInterrupt as error:
    sys.exit(error.exit_code)
"""
SCRIPT_WITHOUT_GUARD = """
from pathlib import Path
from myxtts.data.demo import make_demo_corpus
from myxtts.data.workers import map_in_workers

print("started", flush=True)
make_demo_corpus(Path("corpus"), utterances=4, speakers=1)
print(list(map_in_workers(abs, [-1, -2], 2)), __file__)
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
    (tmp_path / "work.py").write_text(WORK)
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_workers_in_the_middle_of_a_task(user_environment, tmp_path, number):
    program = tmp_path / "program.py"
    program.write_text(COMMAND)
    (tmp_path / "work.py").write_text(WORK)
    parent = subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=user_environment,
        # Started by nohup, the tests ignore SIGHUP, and so would what they start.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    workers = {int(parent.stdout.readline()) for _ in range(4)}
    parent.send_signal(number)
    # Both pipes end with the last process that holds them, Python's tracker of semaphores included.
    _, errors = parent.communicate(timeout=900)
    assert (parent.returncode, errors) == (128 + number, "")
    assert not any(map(is_alive, workers))


def test_workers_do_not_run_the_script_that_started_them(user_environment, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT_WITHOUT_GUARD)
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=user_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["started", f"[1, 2] {script}"], done.stderr
