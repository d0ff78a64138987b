"""`myxtts dashboard`: what TensorBoard serves of a run."""

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from myxtts.cli.dashboard import run_names
from myxtts.cli.main import main
from myxtts.config.config import XTTSConfig
from myxtts.runs.run_dir import RunDir
from myxtts.training.output import RunWriter, event_name


def write_run(folder: Path) -> None:
    run = RunDir(folder)
    run.make()
    writer = RunWriter(run, 0)
    writer.write_configuration(0, XTTSConfig())
    for step in (10, 20):
        metrics = {"time": 1.0, "loss": 1 / step, "prior_loss": 0.1, "validation_loss": 0.5}
        writer.write_metrics(step, metrics | {"compute_share": 0.9, "buffer_size": 4})
        writer.write_measures(step, {"wer": 0.2})
        writer.write_alignment(step, np.eye(8, dtype=np.float32))
        writer.write_sample(step, np.zeros(800, np.float32), 8_000, "A sentence.")
    writer.close()


@pytest.mark.program
def test_it_serves_the_runs_in_groups_with_combined_charts(tmp_path, user_environment):
    folders = [tmp_path / "one" / "run", tmp_path / "two" / "run"]
    for folder in folders:
        write_run(folder)
    command = [sys.executable, "-m", "myxtts", "dashboard", *folders, folders[0], "--port=0"]
    with subprocess.Popen(
        [*command, "--no-browser"], env=user_environment, stdout=subprocess.PIPE, text=True
    ) as process:
        address = process.stdout.readline().split()[1]
        answers = {"audio/tags": {}}
        while len(answers["audio/tags"]) < len(folders):  # events are read in the background
            for part in ("scalars/tags", "images/tags", "custom_scalars/layout", "audio/tags"):
                with urllib.request.urlopen(f"{address}data/plugin/{part}", timeout=60) as answer:
                    answers[part] = json.load(answer)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    assert set(answers["audio/tags"]) == set(run_names(folders))
    for tags in answers["scalars/tags"].values():
        groups = {tag.partition("/")[0] for tag in tags}
        assert groups == {"2 speech", "3 loss", "4 validation", "5 time", "6 device"}
    assert all("1 samples/alignment" in tags for tags in answers["images/tags"].values())
    titles = [category["title"] for category in answers["custom_scalars/layout"]["category"]]
    assert titles == ["Speech", "Loss", "Where the time goes", "Device"]


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("loss", "3 loss/loss"),
        ("prior_loss", "3 loss/loss_prior"),
        ("validation_loss", "4 validation/loss"),
        ("validation_prior_loss", "4 validation/loss_prior"),
        ("validation_mel_distance", "2 speech/mel_distance"),
        ("learning_rate", "7 optimizer/learning_rate"),
        ("data_wait_share", "5 time/data_wait_share"),
        ("gpu0_utilisation", "6 device/gpu0_utilisation"),
    ],
)
def test_groups_of_tensorboard(metric, name):
    assert event_name(metric) == name


def test_what_is_not_a_run(tmp_path, capsys):
    assert main(["dashboard", str(tmp_path / "none")]) == 2
    assert main(["dashboard", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_names_of_runs():
    assert run_names([Path("/a/one"), Path("/a/two")]) == ["one", "two"]
    assert run_names([Path("/a/run"), Path("/b/run")]) == ["a-run", "b-run"]
