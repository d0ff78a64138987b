"""The examples in shell."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.runs.run_dir import find_checkpoint

EXAMPLES = Path(__file__).parents[2] / "examples"


def commands(shown):
    """Return the commands that an example printed, without their arguments."""
    return [line.split()[2] for line in shown.splitlines() if line.startswith("$ myxtts ")]


def reports(folder):
    """Return reports by the first letter of the run's name."""
    files = sorted(folder.glob("*/report.json"))
    return {file.parent.name[0]: json.loads(file.read_text()) for file in files}


@pytest.mark.parametrize(
    "example", [["gpu_pipeline_example.sh", "1"], ["your_own_data.sh"], ["fine_tune.sh"]]
)
def test_without_myxtts_one_line_says_what_to_do(run_example, tmp_path, example):
    elsewhere = shutil.copytree(EXAMPLES, tmp_path / "project" / "examples")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("basename", "date", "dirname"):
        (tools / tool).symlink_to(shutil.which(tool))
    before = sorted(tmp_path.rglob("*"))
    result = run_example(*example, examples=elsewhere, path=str(tools))
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        f"{example[0]}: found no myxtts; run 'make env' in the project's folder first"
    ]
    assert sorted(tmp_path.rglob("*")) == before


def test_the_pipeline_example_lists_its_scenarios(run_example):
    result = run_example("gpu_pipeline_example.sh")
    assert result.returncode == 0
    listed = [line.split()[:3] for line in result.stdout.splitlines() if line.startswith("  ")]
    assert [number for number, *_ in listed] == list("1234567")
    assert listed[-1] == ["7", "4", "GPUs"]


def test_a_scenario_that_is_not_there(run_example):
    result = run_example("gpu_pipeline_example.sh", "8")
    assert result.returncode == 2
    assert "found '8', expected a number from 1 to 7, or all" in result.stderr


def run_scenarios(run_example, which, demo_corpus, settings_file):
    # Four replicas' worth of clips, and micro-batches of equal size.
    flags = ["--virtual-devices=4", "--batch-size=12", "--model-start-delay=0"]
    result = run_example(
        "gpu_pipeline_example.sh",
        which,
        *("--train-data", demo_corpus, "--config", settings_file, *flags),
        MAX_STEPS="2",
        RUNS="pipeline runs",
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
def test_four_gpus(run_example, demo_corpus, settings_file, tmp_path):
    shown = run_scenarios(run_example, "7", demo_corpus, settings_file)
    assert "$ myxtts train --max-steps 2 --data-gpu 0 --model-gpu 1,2,3" in shown
    assert "--run-dir 'pipeline runs/7-" in shown
    report = reports(tmp_path / "pipeline runs")["7"]
    assert report["steps"] == 2
    assert report["mode"] == "multi-gpu"
    assert report["model_devices"] == ["CPU:1", "CPU:2", "CPU:3"]
    last = shown.splitlines()[-1].split(maxsplit=3)
    assert last[:3] == ["7", "multi-gpu", "CPU:0"]
    assert last[3].startswith("CPU:1, CPU:2, CPU:3")


@pytest.mark.slow
def test_all_scenarios(run_example, demo_corpus, settings_file, tmp_path):
    run_scenarios(run_example, "all", demo_corpus, settings_file)
    found = reports(tmp_path / "pipeline runs")
    assert "".join(found) == "1234567"
    modes = [report["mode"] for report in found.values()]
    assert modes == ["single-gpu-buffered"] * 3 + ["multi-gpu"] * 4
    assert len(found["3"]["shapes"]) == 1


def write_own_corpus(folder, demo_corpus):
    """LJSpeech's layout, with a row whose recording is not there."""
    shutil.copytree(demo_corpus / "wavs", folder / "wavs")
    rows = []
    for file in ("metadata_train.csv", "metadata_eval.csv"):
        for line in (demo_corpus / file).read_text().splitlines()[1:]:
            audio, text, *_ = line.split("|")
            rows.append(f"{Path(audio).stem}|{text}")
    (folder / "metadata.csv").write_text("\n".join([*rows, "lost|Not to be heard."]) + "\n")


WAY = ["validate", "stats", "prepare", "train", "synthesize", "evaluate"]


@pytest.mark.slow
def test_from_own_recordings_to_speech(run_example, demo_corpus, settings_file, tmp_path):
    write_own_corpus(tmp_path / "mine", demo_corpus)
    result = run_example("your_own_data.sh", "mine", CONFIG=str(settings_file), MAX_STEPS="2")
    assert result.returncode == 0, result.stderr
    assert commands(result.stdout) == WAY
    out = tmp_path / "runs" / "your-own-data"
    assert sum(reports(out)["r"]["rejected"].values()) == 1
    assert soundfile.info(out / "speech.wav").duration > 0
    assert list(out.glob("run-*/evaluation/index.html"))


@pytest.mark.slow
def test_without_recordings_a_corpus_is_made(run_example, settings_file, tmp_path):
    settings = {"CONFIG": str(settings_file), "MAX_STEPS": "2", "UTTERANCES": "18"}
    result = run_example("your_own_data.sh", OUT="out", **settings)
    assert result.returncode == 0, result.stderr
    assert commands(result.stdout) == ["demo-data", *WAY]
    assert (tmp_path / "out" / "speech.wav").exists()


def write_higher_voices(folder, demo_corpus):
    """Return a corpus of the same sentences in voices that are a fifth higher and faster."""
    shutil.copytree(demo_corpus, folder, ignore=shutil.ignore_patterns("myxtts-cache"))
    for file in (folder / "wavs").iterdir():
        samples, rate = soundfile.read(file)
        soundfile.write(file, samples, round(1.2 * rate))


@pytest.mark.slow
def test_fine_tuning_begins_with_the_weights_of_the_base(
    run_example, demo_corpus, settings_file, tmp_path
):
    write_higher_voices(tmp_path / "other", demo_corpus)
    # With a rate of nothing the weights stay those that the run began with.
    settings = {"CONFIG": str(settings_file), "BASE_STEPS": "3", "MAX_STEPS": "2", "RATE": "0"}
    result = run_example("fine_tune.sh", demo_corpus, "other", **settings)
    assert result.returncode == 0, result.stderr
    assert commands(result.stdout) == ["train", "train", "synthesize"]
    out = tmp_path / "runs" / "fine-tuned"
    found = reports(out)
    assert (found["b"]["steps"], found["r"]["steps"]) == (3, 2)
    base, tuned = (
        find_checkpoint(next(out.glob(f"{name}-*")), for_synthesis=True).ema_weights()
        for name in ("base", "run")
    )
    for name, value in base.items():
        np.testing.assert_allclose(tuned[name], value, atol=1e-6, err_msg=name)


@pytest.mark.slow
def test_fine_tuning_with_corpora_that_are_made(run_example, settings_file, tmp_path):
    settings = {"CONFIG": str(settings_file), "BASE_STEPS": "2", "MAX_STEPS": "2"}
    result = run_example("fine_tune.sh", **settings)
    assert result.returncode == 0, result.stderr
    assert commands(result.stdout) == [*["demo-data"] * 2, "train", "train", "synthesize"]
    assert (tmp_path / "runs" / "fine-tuned" / "speech.wav").exists()


def test_fine_tuning_needs_two_folders(run_example):
    result = run_example("fine_tune.sh", "one")
    assert result.returncode == 2
    assert result.stderr.startswith("fine_tune.sh: ")
