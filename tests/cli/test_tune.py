"""`myxtts tune` as a user types it, with a miniature model."""

import json
import subprocess
import sys

import pytest
import yaml

from myxtts.cli import tune
from myxtts.cli.main import main
from myxtts.config.loading import load_config, read_yaml
from myxtts.training import tune as tuning

# Batches of half its size, so that there is a larger one to try.
MINIATURE = ["--config=miniature", "--set=data.batch_size=2"]
TUNED = {
    "data.batch_size",
    "data.workers",
    "data.buffer_size",
    "training.precision",
    "training.xla",
}


@pytest.mark.training
def test_the_table_and_a_file_that_trains(demo_corpus, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # Eighteen clips are too few for a choice of batch sizes.
    monkeypatch.setattr(tuning, "MIN_BATCHES_PER_EPOCH", 4)
    arguments = ["--train-data", str(demo_corpus), *MINIATURE]
    # On no machine time for more than batch sizes and loading.
    monkeypatch.setattr(tune, "_MIN_MINUTES", 0.0)
    assert main(["tune", *arguments, "--set=training.seed=3", "--minutes=0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    header = lines.index(next(line for line in lines if line.startswith("setting ")))
    assert lines[header].split() == ["setting", "now", "recommended", "worth"]
    assert {line.split()[0] for line in lines[header + 1 : header + 6]} == TUNED
    assert any(line.startswith("Not measured: bfloat16 without XLA") for line in lines)
    assert lines[-1] == f"myxtts train {demo_corpus} --config myxtts-tuned.yaml"

    written = yaml.safe_load((tmp_path / "myxtts-tuned.yaml").read_text())
    given = read_yaml("miniature")
    assert written["model"] == given["model"]
    assert written["training"] == given["training"] | {"seed": 3}
    assert set(written["data"]) <= {*given["data"], "buffer_size"}
    assert written["data"]["batch_size"] in (2, 4)
    assert main([*lines[-1].split()[1:], "--dry-run"]) == 0

    assert main(["tune", *arguments]) == 2
    assert "myxtts-tuned.yaml: already exists" in capsys.readouterr().err


def test_bad_input_is_refused_before_anything_is_measured(demo_corpus, tmp_path, capsys):
    def refused(*arguments):
        assert main(["tune", *arguments]) == 2
        return capsys.readouterr().err

    out = f"--out={tmp_path / 'tuned.yaml'}"
    assert "myxtts tune CORPUS" in refused(out)
    assert "--minutes: found 0, allowed" in refused(
        "--train-data", str(demo_corpus), "--minutes=0", out
    )
    assert "training.task: found vocoder" in refused(
        "--train-data", str(demo_corpus), "--config=vocoder", out
    )
    assert "no folder" in refused(
        "--train-data", str(demo_corpus), f"--out={tmp_path / 'none' / 'tuned.yaml'}"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_everything_is_compared_when_there_is_time(demo_corpus, tmp_path, user_environment):
    """On two virtual devices, mirrored; in a process of its own, for they are set once."""
    out = tmp_path / "tuned.yaml"
    command = [
        *(sys.executable, "-m", "myxtts.cli.main", "tune", "--train-data", str(demo_corpus)),
        *(*MINIATURE, "--minutes=15", "--json", f"--out={out}"),
        *("--virtual-devices=2", "--set=training.multi_gpu=true"),
    ]
    result = subprocess.run(
        command, capture_output=True, text=True, env=user_environment, check=False
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert set(found) == {"recommendations", "skipped", "measurements", "file", "command"}
    assert {item["setting"] for item in found["recommendations"]} == TUNED
    assert all(
        set(item) == {"setting", "now", "recommended", "worth"} for item in found["recommendations"]
    )
    assert found["skipped"] == []
    assert set(found["measurements"]["speed_of_precision"]) == {"float32", "bfloat16", "float16"}
    assert found["measurements"]["xla"]["compile_seconds_per_shape"] > 0
    assert found["file"] == str(out)
    tuned = load_config(out)
    changed = {
        item["setting"].split(".")[1]: item["recommended"]
        for item in found["recommendations"]
        if item["now"] != item["recommended"]
    }
    assert changed.items() <= {**tuned.as_dict()["data"], **tuned.as_dict()["training"]}.items()
