"""The process that measures next to a run."""

import os
import signal
import subprocess
import sys
import time

import pytest

from myxtts.errors import ConfigError
from myxtts.runs.run_dir import RunDir, find_checkpoint
from myxtts.synthesis.tts import TTS
from myxtts.training.best import BackgroundEvaluation

_PARENT = """
import sys, time
from pathlib import Path
from myxtts.runs.run_dir import RunDir, find_checkpoint
from myxtts.training.best import BackgroundEvaluation
checkpoint = find_checkpoint(Path(sys.argv[2]))
config = checkpoint.config().with_(train_data=sys.argv[3])
background = BackgroundEvaluation(RunDir(sys.argv[1]), config, ["en"])
background.start(6, checkpoint.folder)
print(background._process.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def one_sentence(miniature):
    return miniature()


@pytest.fixture
def measuring(trained_run, one_sentence):
    """One that does not give way: on a busy machine its figures might never come."""
    opened = []

    def start(*only):
        run = RunDir(trained_run)
        opened.append(BackgroundEvaluation(run, one_sentence, ["en"], only=only, gives_way=False))
        return opened[-1]

    yield start
    for background in opened:
        background.close()


def test_measures_one_at_a_time_and_the_newest_of_those_that_wait(trained_run, measuring):
    checkpoint = find_checkpoint(trained_run).folder
    background = measuring("mel_cepstral_distance", "clipping")
    for step in (1, 2, 3):
        background.start(step, checkpoint)
    assert background.is_busy
    found = []
    while background.is_busy:
        for measured in background.poll():
            found.append(measured.step)
            assert measured.values["mel_cepstral_distance"] > 0
            assert set(measured.values) == {"mel_cepstral_distance", "clipping"}
            assert TTS(measured.snapshot).step == 6
        time.sleep(0.1)
    assert found == [1, 3]
    assert background.poll() == []
    background.close()
    assert not (trained_run / ".measuring").exists()


def test_a_checkpoint_that_cannot_be_measured_is_said_and_the_next_is_measured(
    trained_run, measuring, caplog
):
    checkpoint = find_checkpoint(trained_run).folder
    background = measuring("clipping")
    background.start(1, checkpoint)
    (trained_run / ".measuring" / "00000001" / "tokenizer.json").unlink()
    background.start(2, checkpoint)
    assert [measured.step for measured in background.wait()] == [2]
    assert "step 1 could not be evaluated" in caplog.text


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="needs a scheduler that tells")
def test_gives_way_to_the_run(trained_run, one_sentence):
    background = BackgroundEvaluation(RunDir(trained_run), one_sentence, ["en"])
    try:
        background.start(1, find_checkpoint(trained_run).folder)
        assert background._process is not None
        while os.sched_getscheduler(background._process.pid) != os.SCHED_IDLE:
            assert background._process.poll() is None
            time.sleep(0.1)
    finally:
        background.close()


def test_close_leaves_nothing_running(trained_run, one_sentence):
    background = BackgroundEvaluation(RunDir(trained_run), one_sentence, ["en"])
    background.start(1, find_checkpoint(trained_run).folder)
    assert background._process is not None
    pid = background._process.pid
    background.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not (trained_run / ".measuring").exists()


def test_what_cannot_be_measured_is_said_at_once(trained_run, miniature):
    with pytest.raises(ConfigError, match="held-out clips are in en, but the run speaks xx"):
        BackgroundEvaluation(RunDir(trained_run), miniature(), ["xx"])
    assert not (trained_run / ".measuring").exists()


def test_ends_with_a_parent_that_is_killed(trained_run, demo_corpus, tmp_path, user_environment):
    arguments = [tmp_path / "run", trained_run, demo_corpus]
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, *map(str, arguments)],
        stdout=subprocess.PIPE,
        env=user_environment,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 300
    while _is_running(child) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _is_running(child)


def _is_running(pid: int) -> bool:
    """Return an orphan that has ended may wait for its new parent to take notice."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
