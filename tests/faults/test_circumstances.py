"""Runs in bad circumstances: no terminal, little of everything, others at the same place."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from myxtts.data.corpus import open_corpus
from myxtts.data.demo import make_demo_corpus
from myxtts.runs.run_dir import RunDir, find_checkpoint
from myxtts.training.trainer import XTTSTrainer


@pytest.fixture
def command(miniature, tmp_path, user_environment):
    """Return a function that makes the arguments and environment of `myxtts train`."""

    def make(run_dir, *arguments, **changes):
        config = tmp_path / f"{run_dir.name}.yaml"
        config.write_text(json.dumps(miniature(**changes).as_dict()))
        program = [sys.executable, "-m", "myxtts.cli.main", "train", f"--config={config}"]
        return [*program, f"--run-dir={run_dir}", *arguments]

    make.environment = user_environment | {"PYTHONUNBUFFERED": "1"}
    return make


@pytest.mark.slow
def test_a_terminal_that_is_closed_ends_the_run_saved(command, tmp_path):
    """SIGHUP, and then every write fails with EIO."""
    run_dir = tmp_path / "run"
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command(run_dir, "--max-steps=100000", save_every=10**6, evaluate_every=10**6),
        env=command.environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        # The controlling terminal of the new session.
        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
    )
    os.close(slave)
    deadline = time.monotonic() + 200
    while not (run_dir / "metrics.jsonl").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        os.read(master, 65_536)
    os.close(master)
    assert process.wait(100) == 128 + signal.SIGHUP
    assert find_checkpoint(run_dir).info.step >= 1
    report = json.loads((run_dir / "report.json").read_text())
    assert (report["state"], report["interrupted_by"]) == ("interrupted", "SIGHUP")


@pytest.mark.slow
def test_two_runs_prepare_and_train_on_one_corpus_at_once(command, tmp_path):
    corpus = tmp_path / "corpus"
    make_demo_corpus(corpus, utterances=18, speakers=2)
    processes = [
        subprocess.Popen(
            command(tmp_path / name, train_data=str(corpus)),
            env=command.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in ("one", "two")
    ]
    for process in processes:
        output, _ = process.communicate(timeout=900)
        assert process.returncode == 0, output
    states = [find_checkpoint(tmp_path / name).training_state() for name in ("one", "two")]
    assert all((states[0][name] == value).all() for name, value in states[1].items())
    assert not list((corpus / "myxtts-cache").glob("*.build"))


def test_two_preparations_at_once_make_one_cache(miniature, tmp_path):
    corpus = tmp_path / "corpus"
    make_demo_corpus(corpus, utterances=18, speakers=2)
    config = miniature(train_data=str(corpus), workers=1)
    made, problems = [], []

    def prepare():
        try:
            made.append(open_corpus(config).train.cache)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            problems.append(error)

    threads = [threading.Thread(target=prepare) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems
    assert made[0].folder == made[1].folder
    assert made[0].fingerprint == made[1].fingerprint


def in_own_mounts(script):
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    if "code" not in done.stdout:
        pytest.skip(f"no file system of its own: {done.stderr.strip()}")
    return done.stdout, done.stderr


needs_mounts = pytest.mark.skipif(
    shutil.which("unshare") is None, reason="needs a file system of its own"
)


@pytest.mark.slow
@needs_mounts
def test_a_corpus_that_cannot_be_written_to(tmp_path):
    corpus, elsewhere = tmp_path / "corpus", tmp_path / "elsewhere"
    make_demo_corpus(corpus, utterances=18, speakers=2)
    prepare = f"{sys.executable} -m myxtts.cli.main prepare {corpus} --set data.workers=1"
    output, errors = in_own_mounts(f"""
        mount --bind {corpus} {corpus} && mount -o remount,ro,bind {corpus} || exit 99
        {prepare}; echo "code $?"
        {prepare} --set data.cache_dir={elsewhere}; echo "code $?"
    """)
    assert "code 2" in output
    assert "code 0" in output
    assert "cannot write features there (Read-only file system); set data.cache_dir" in errors


@pytest.mark.slow
@needs_mounts
def test_a_file_system_that_fills_while_features_are_made(tmp_path):
    corpus, small = tmp_path / "corpus", tmp_path / "small"
    make_demo_corpus(corpus, utterances=18, speakers=2)
    small.mkdir()
    prepare = f"{sys.executable} -m myxtts.cli.main prepare {corpus} --set data.workers=1"
    output, errors = in_own_mounts(f"""
        mount -t tmpfs -o size=200k small {small} || exit 99
        {prepare} --set data.cache_dir={small}; echo "code $?"
        ls -A {small}/*.build
    """)
    assert "code 2" in output
    assert ".part" not in output
    assert "cannot write features there (No space left on device)" in errors
    assert "Traceback" not in errors


# No file may grow beyond a kilobyte from where a run has begun.
STARVED_WRITER = """
import logging, resource, sys
import numpy as np
from myxtts.runs.run_dir import RunDir
from myxtts.training.output import RunWriter

logging.basicConfig(format="%(message)s")
run = RunDir(sys.argv[1])
run.make()
writer = RunWriter(run, 0)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
for step in range(1, 40):
    writer.write_metrics(step, {"loss": 1 / step})
writer.write_sample(40, np.zeros(50_000, np.float32), 22_050, "text")
writer.write_alignment(40, np.eye(40, dtype=np.float32))
writer.close()
"""


def test_a_disk_that_fills_under_metrics_and_tensorboard(user_environment, tmp_path):
    """Lines, samples and events are lost, each with a warning; what is there is whole."""
    done = subprocess.run(
        [sys.executable, "-c", STARVED_WRITER, str(tmp_path)],
        env=user_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for what in ("metrics", "events", "the sample", "the alignment"):
        assert any(line.startswith(f"{what} of step") for line in done.stderr.splitlines()), what
    steps = [line["step"] for line in RunDir(tmp_path).metric_lines()]
    assert steps == [*range(1, len(steps) + 1)]
    assert 1 < len(steps) < 39


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["ulimit -n 64", "ulimit -v 6000000"])
def test_few_descriptors_and_little_memory(command, tmp_path, limit):
    """The run ends well, or with one line; never with a traceback or half a checkpoint."""
    arguments = " ".join(command(tmp_path / "run", "--max-steps=3"))
    done = subprocess.run(
        ["bash", "-c", f"{limit}; exec {arguments}"],
        env=command.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 2), done.stderr
    assert "Traceback" not in done.stderr
    if done.returncode == 0:
        assert find_checkpoint(tmp_path / "run").info.step == 3


PHASES = [
    *("Final Training Configuration", "... loading TensorFlow", "Run folder"),
    *("... estimating an initial alignment", "... tracing", "... warming up"),
    *("... first step", "step 3  validation"),
]


def require_interrupted(process, errors):
    # Exit code as seen by a shell; a second signal may end a program that is already ending.
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    assert code in (129, 130, 143), errors
    assert "Traceback" not in errors


@pytest.mark.slow
@pytest.mark.parametrize(
    "numbers", [("INT", "TERM"), ("TERM", "INT"), ("TERM", "TERM"), ("HUP", "TERM")]
)
@pytest.mark.parametrize("phase", PHASES)
def test_two_signals_one_after_the_other(command, tmp_path, phase, numbers):
    process = subprocess.Popen(
        command(tmp_path / "run", "--max-steps=2000"),
        env=command.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert any(line.startswith(phase) for line in process.stdout)
    for number in numbers:
        process.send_signal(signal.Signals[f"SIG{number}"])
        time.sleep(0.05)
    _, errors = process.communicate(timeout=900)
    require_interrupted(process, errors)
    if RunDir(tmp_path / "run").checkpoint_folders():
        find_checkpoint(tmp_path / "run")
    else:
        # The second signal may end the saving of the first checkpoint: the run starts again.
        again = command(tmp_path / "run", "--max-steps=1")
        subprocess.run(again, env=command.environment, check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [("INT", "INT"), ("TERM", "INT"), ("HUP", "TERM")])
def test_two_signals_while_features_are_prepared(user_environment, tmp_path, numbers):
    """What is finished stays, nothing keeps running, and the next attempt makes the rest."""
    corpus = tmp_path / "corpus"
    make_demo_corpus(corpus, utterances=18, speakers=2)
    program = [sys.executable, "-m", "myxtts.cli.main", "prepare", str(corpus)]
    process = subprocess.Popen(
        program, env=user_environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 200
    while not list(corpus.glob("myxtts-cache/*.build")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    for number in numbers:
        process.send_signal(signal.Signals[f"SIG{number}"])
        time.sleep(0.05)
    _, errors = process.communicate(timeout=900)
    require_interrupted(process, errors)
    subprocess.run(program, env=user_environment, check=True, capture_output=True)
    assert not list(corpus.glob("myxtts-cache/*.build"))


def test_a_clock_that_jumps_changes_nothing(trained_run, miniature, corpus, tmp_path, monkeypatch):
    now, jumps = time.time, iter(range(10**6))
    monkeypatch.setattr(time, "time", lambda: now() + (-1) ** next(jumps) * 3e8)
    report = XTTSTrainer(miniature(), corpus, tmp_path / "run").fit()
    assert 0 < report.seconds["wall"] < 1e4
    expected, found = (
        find_checkpoint(run).ema_weights() for run in (trained_run, tmp_path / "run")
    )
    assert all((found[name] == value).all() for name, value in expected.items())


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 1},
        {"shape_count": 1},
        {"shape_count": 64},
        {"batch_size": 1, "shape_count": 64},
        {"batch_size": 4_096, "max_steps": 1},
        {"gradient_accumulation_steps": 7, "max_steps": 2},
        {"save_every": 10**12, "log_every": 10**12, "evaluate_every": 10**12},
    ],
    ids=str,
)
def test_settings_at_their_ends(miniature, tmp_path, settings):
    config = miniature(**settings)
    report = XTTSTrainer(config, open_corpus(config), tmp_path / "run").fit()
    assert report.state == "complete"
    assert find_checkpoint(tmp_path / "run").info.step == report.steps
