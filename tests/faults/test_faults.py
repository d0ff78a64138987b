"""Real processes that are killed, interrupted and starved; the long ones are marked slow."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from myxtts.cli.main import main
from myxtts.errors import CheckpointError
from myxtts.runs.run_dir import RunDir, find_checkpoint

HERE = Path(__file__).parent


@pytest.fixture
def start(user_environment):
    """Start a program; it ends with the test."""
    started = []

    def run(*command, **options):
        process = subprocess.Popen(
            [*map(str, command)],
            env=user_environment | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def train(start, miniature, tmp_path):
    """Return a function that starts `myxtts train` on the miniature in a new folder."""

    def run(run_dir, *arguments, program=("-m", "myxtts.cli.main"), **changes):
        config = tmp_path / "config.yaml"
        config.write_text(json.dumps(miniature(**changes).as_dict()))
        command = [sys.executable, *program, "train", f"--config={config}"]
        return start(*command, f"--run-dir={run_dir}", *arguments)

    return run


# Sends itself a signal the moment it shows a line, so that it is never later than meant.
INTERRUPTED_PROGRAM = """
import os, signal, sys
from myxtts.cli.main import main

class Screen:
    def __init__(self, screen):
        self._screen = screen

    def __getattr__(self, name):
        return getattr(self._screen, name)

    def write(self, text):
        self._screen.write(text)
        if text.startswith(sys.argv[1]):
            os.kill(os.getpid(), int(sys.argv[2]))

sys.stdout = Screen(sys.stdout)
sys.exit(main(sys.argv[3:]))
"""


def wait_for(process, beginning):
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line.startswith(beginning):
            return
    raise AssertionError("".join(seen) + process.stderr.read())


def ended(process):
    output, errors = process.communicate(timeout=900)
    return process.returncode, output, errors


def assert_same_weights(one, other):
    expected, found = (find_checkpoint(run).training_state() for run in (one, other))
    assert set(expected) == set(found)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_a_writer_killed_at_20_moments_leaves_what_it_said_was_saved(start, tmp_path):
    generator = random.Random(0)
    said = 0
    for _ in range(20):
        process = start(sys.executable, HERE / "saving_program.py", tmp_path / "run")
        said = int(process.stdout.readline().split()[1])
        time.sleep(generator.uniform(0.0, 0.1))
        process.kill()
        # Not `communicate`, which skips what `readline` has read ahead.
        with process:
            lines = process.stdout.read().splitlines()
        said = max([said, *(int(line.split()[1]) for line in lines)])
        found = find_checkpoint(tmp_path / "run")
        assert found.folder == RunDir(tmp_path / "run").checkpoint_folders()[-1]
        assert found.info.step in (said, said + 1)
        assert (found.training_state()["weights/3"] == found.info.step).all()


def test_a_disk_that_fails_in_the_middle_of_a_write(start, tmp_path):
    process = start(sys.executable, HERE / "saving_program.py", tmp_path / "run", 300_000)
    code, output, errors = ended(process)
    assert output.splitlines() == ["saved 1", "saved 2", *(f"failed {n}" for n in (3, 4, 5, 6))]
    assert code == 1
    assert "CheckpointError" in errors  # not caught by that program: the end of a run
    assert errors.count("WARNING step") == 4
    assert "File too large; free some space" in errors
    assert find_checkpoint(tmp_path / "run").info.step == 2
    names = {path.name for path in (tmp_path / "run" / "checkpoints").iterdir()}
    assert names == {"step_00000001", "step_00000002"}


def test_two_runs_in_one_folder(demo_corpus, tmp_path, capsys):
    with RunDir(tmp_path).lock():
        arguments = ["--train-data", demo_corpus, "--run-dir", tmp_path, "--set=data.workers=1"]
        assert main(["train", *map(str, arguments)]) == 2
    assert f"{tmp_path}: is in use by another run" in capsys.readouterr().err


def test_sigterm_while_training_saves_and_resume_ends_like_an_untouched_run(
    train, trained_run, demo_corpus, tmp_path
):
    """Stopped by a scheduler, killed by another, and resumed each time."""
    run_dir = tmp_path / "run"
    interrupted = ("-c", INTERRUPTED_PROGRAM, "... first step", signal.SIGTERM.value)
    first = train(run_dir, "--resume=auto", program=interrupted)
    code, output, errors = ended(first)
    # Exit code that makes a scheduler restart the job.
    assert code == 143, errors
    step = find_checkpoint(run_dir).info.step
    assert 1 <= step < 6
    assert f"Stopped at step {step} of 6, saved in {run_dir}" in output
    assert "Useful utilization" in output
    assert output.rstrip().endswith(f"Continue: myxtts train {demo_corpus} --resume {run_dir}")
    report = json.loads((run_dir / "report.json").read_text())
    assert report["steps"] == step
    assert (report["state"], report["interrupted_by"]) == ("interrupted", "SIGTERM")

    second = train(run_dir, "--resume=auto")
    wait_for(second, "... first step")
    time.sleep(0.2)
    second.kill()
    second.communicate()

    third = train(run_dir, "--resume=auto")
    code, output, errors = ended(third)
    assert code == 0, errors
    assert f"--resume auto: resuming {run_dir}" in output
    assert_same_weights(trained_run, run_dir)
    # The account continues where that of the first part ended.
    seconds = json.loads((run_dir / "report.json").read_text())["seconds"]
    assert seconds["wall"] > report["seconds"]["wall"]
    assert seconds["start_up"] > report["seconds"]["start_up"]


def test_a_damaged_checkpoint_is_passed_over_by_the_command(
    trained_run, demo_corpus, tmp_path, capsys
):
    shutil.copytree(trained_run, tmp_path / "run")
    (newest,) = RunDir(tmp_path / "run").checkpoint_folders()[-1:]
    (newest / "training.safetensors").write_bytes(b"")
    assert main(["train", str(demo_corpus), "--resume", str(tmp_path / "run"), "--dry-run"]) == 0
    # What differs is listed, and what would break the model is refused.
    changed = ["--set=training.learning_rate=1e-3", "--dry-run"]
    assert main(["train", str(demo_corpus), "--resume", str(tmp_path / "run"), *changed]) == 0
    differs = "Changed since the checkpoint: training.learning_rate: 0.002 -> 0.001"
    assert differs in capsys.readouterr().out
    for setting in ("model.text_width=24", "audio.hop_samples=128", "data.n_mels=40"):
        arguments = [
            str(demo_corpus),
            "--resume",
            str(tmp_path / "run"),
            f"--set={setting}",
            "--dry-run",
        ]
        assert main(["train", *arguments]) == 2
        name = setting.partition("=")[0]
        assert f"does not match this configuration: {name} is" in capsys.readouterr().err


def test_resume_auto_finds_the_run_that_was_saved_last(
    trained_run, demo_corpus, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("0001", "0002"):
        shutil.copytree(trained_run, tmp_path / "runs" / name, copy_function=shutil.copy)
    (tmp_path / "runs" / "0003").mkdir()
    assert main(["train", str(demo_corpus), "--resume", "auto", "--dry-run"]) == 0
    assert "--resume auto: resuming runs/0002" in capsys.readouterr().out


def test_resume_auto_without_a_run_starts_anew(demo_corpus, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["--train-data", str(demo_corpus), "--set=data.workers=1", "--dry-run"]
    assert main(["train", "--resume", "auto", *arguments]) == 0
    assert "--resume auto: no saved run found, starting a new one" in capsys.readouterr().out


def test_a_run_stopped_before_its_first_checkpoint_starts_over(
    miniature, demo_corpus, tmp_path, capsys, monkeypatch
):
    from myxtts.training import train

    def stopped(*arguments, **settings):
        raise KeyboardInterrupt

    config, run = tmp_path / "config.yaml", tmp_path / "run"
    config.write_text(json.dumps(miniature(batch_size=3).as_dict()))
    with monkeypatch.context() as during:
        during.setattr(train, "prepare_trainer", stopped)
        main(["train", f"--config={config}", f"--run-dir={run}"])
    resume = ["train", str(demo_corpus), f"--resume={run}", "--dry-run"]
    assert main([*resume[:1], *resume[2:]]) == 2  # the corpus is not taken from the run
    capsys.readouterr()
    assert main([*resume, "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)["configuration"]
    assert settings["data"]["batch_size"] == 3
    assert settings["model"] == miniature().as_dict()["model"]
    RunDir(run).start_report_file.write_text("{}")  # its weights would not be those it began with
    assert main(resume) == 2


PHASES = [
    "Final Training Configuration",
    "... loading TensorFlow",
    "Run folder",
    "... estimating an initial alignment",
    "... tracing the training step",
    "... warming up",
]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_before_the_first_step_ends_at_once(train, tmp_path, phase, number):
    process = train(tmp_path / "run")
    wait_for(process, phase)
    process.send_signal(number)
    code, _, errors = ended(process)
    assert code == 128 + number
    assert "interrupted" in errors.splitlines()[-1]
    assert "Traceback" not in errors


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["... first step", "step 3  validation"])
def test_a_signal_while_training_saves(train, tmp_path, phase):
    process = train(tmp_path / "run", "--max-steps=1000")
    wait_for(process, phase)
    process.send_signal(signal.SIGTERM)
    code, output, errors = ended(process)
    assert code == 143, errors
    assert f"Stopped at step {find_checkpoint(tmp_path / 'run').info.step}" in output


@pytest.mark.slow
def test_a_second_ctrl_c_leaves_the_last_checkpoint_whole(train, tmp_path):
    process = train(tmp_path / "run", "--max-steps=100000", save_every=1, evaluate_every=10**6)
    wait_for(process, "... first step")
    while not RunDir(tmp_path / "run").checkpoint_folders():
        assert process.poll() is None
        time.sleep(0.1)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    assert ended(process)[0] == 130
    found = find_checkpoint(tmp_path / "run")
    assert found.folder == RunDir(tmp_path / "run").checkpoint_folders()[-1]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs a file system of its own")
def test_a_run_on_a_full_disk_continues_and_says_so_at_the_end(
    start, miniature, tmp_path, demo_corpus
):
    """A file system of 8 MB, which a filler takes up after the first checkpoint."""
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps(miniature(save_every=1, evaluate_every=100).as_dict()))
    run_dir = tmp_path / "small" / "run"
    run_dir.parent.mkdir()
    train = f"{sys.executable} -m myxtts.cli.main train"
    script = f"""
        mount -t tmpfs -o size=8m small {run_dir.parent} || exit 99
        ( until ls {run_dir}/checkpoints/step_* 2>/dev/null; do sleep 0.05; done
          head -c 20m /dev/zero > {run_dir.parent}/filler ) >/dev/null 2>&1 &
        {train} --config={config} --run-dir={run_dir} --max-steps=200; echo "code $?"
        rm {run_dir.parent}/filler
        {train} {demo_corpus} --resume={run_dir} --max-steps=205; echo "code $?"
        ls {run_dir}/checkpoints
    """
    process = start("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script)
    _, output, errors = ended(process)
    if "code" not in output:
        pytest.skip(f"no file system of its own: {errors.strip()}")
    assert "code 2" in output
    assert "was not saved" in errors
    assert "not enough disk space" in errors
    assert output.count("code 0") == 1
    assert "step_00000205" in output


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["single", "multi"])
def test_kill_9_at_random_moments(start, mode):
    flags = ("--kills=5", "--last=1", "--steps=400", "--seed=1", f"--mode={mode}")
    process = start(sys.executable, HERE / "kills.py", *flags)
    output, errors = process.communicate(timeout=1_800)
    assert process.returncode == 0, output + errors


def test_a_file_system_that_cannot_rename_folders(tmp_path):
    """The target is taken by a file that cannot be moved: the rename itself fails."""
    from myxtts.files import move_into_place
    from myxtts.runs.checkpoint import failures_explained

    part, target = tmp_path / ".step_00000001.part", Path("/proc/step_00000001")
    part.mkdir()
    expected = "use a file system that can rename"
    with pytest.raises(CheckpointError, match=expected), failures_explained(target):
        move_into_place(part, target, replace=True, durable=True)
