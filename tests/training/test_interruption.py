"""Signals to real processes; the ones that train are in tests/faults."""

import signal
import subprocess
import sys
import threading

import pytest

from myxtts.training.interruption import Interruption

PROGRAM = """
import hashlib, sys, threading, time
from myxtts.training.interruption import Interruption

def deaf():
    # Computes for hours in one call, like a compilation: Python's handlers have to wait.
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)

def tell_when_deaf(busy_seconds):
    # Nothing else in this program keeps its main thread busy for so long.
    while time.clock_gettime(clock) < busy_seconds:
        time.sleep(0.01)
    print("ready", flush=True)

with Interruption() as interruption:
    if "training" in sys.argv:
        interruption.begin_training()
    try:
        if "deaf" in sys.argv:
            clock = time.pthread_getcpuclockid(threading.get_ident())
            busy_seconds = time.clock_gettime(clock) + 0.2
            threading.Thread(target=tell_when_deaf, args=[busy_seconds], daemon=True).start()
            deaf()
        print("ready", flush=True)
        while not interruption.requested:
            time.sleep(0.01)
        print("saving", flush=True)
        if "slow" in sys.argv:
            time.sleep(600)
    except KeyboardInterrupt as error:
        print("unwinds", flush=True)
        sys.exit(error.exit_code)
print("saved", flush=True)
"""


@pytest.fixture
def start(user_environment):
    started = []

    def run(*words):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words],
            env=user_environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("number", "key"), [(signal.SIGINT, "Ctrl-C again"), (signal.SIGTERM, "Ctrl-C")]
)
def test_training_is_asked_to_stop(start, number, key):
    process = start("training")
    process.send_signal(number)
    output, errors = process.communicate(timeout=900)
    assert process.returncode == 0
    assert output == "saving\nsaved\n"
    assert f"Stopping after this step and saving. Press {key} to quit now." in errors


def test_a_second_ctrl_c_ends_at_once(start):
    process = start("training", "slow")
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "saving\n"
    process.send_signal(signal.SIGTERM)  # a scheduler may repeat itself
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=900)
    assert process.returncode == 130
    assert errors.endswith("myxtts: interrupted\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_before_the_first_step_either_signal_unwinds(start, number, code):
    process = start()
    process.send_signal(number)
    output, _ = process.communicate(timeout=900)
    assert (process.returncode, output) == (code, "unwinds\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_compilation_does_not_keep_the_user_waiting(start, number, code):
    process = start("deaf")
    process.send_signal(number)
    _, errors = process.communicate(timeout=900)
    assert process.returncode == code
    assert errors.endswith("myxtts: interrupted\n")


def test_what_handled_signals_before_does_so_again():
    before = signal.getsignal(signal.SIGTERM)
    with Interruption():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before
    assert not any(thread.name == "signals" for thread in threading.enumerate())


def test_in_another_thread_it_only_stands_by():
    def use():
        with Interruption() as interruption:
            results.append(interruption.requested)

    results = []
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert results == [False]
