"""The vocoder as a task: what holds for the acoustic model holds for it."""

import json
import shlex

import numpy as np
import pytest
import soundfile
from safetensors.numpy import load_file

from myxtts.data.opening import open_corpus
from myxtts.errors import CheckpointError
from myxtts.runs.run_dir import RunDir, find_checkpoint
from myxtts.training.tasks import task_of
from myxtts.training.trainer import XTTSTrainer


@pytest.fixture(scope="module")
def train(miniature):
    def fit(run_dir, *, steps=None, resume: bool = False, init_from=None, **changes):
        config = miniature(task="vocoder", **changes)
        trainer = XTTSTrainer(config, open_corpus(config), run_dir)
        trainer.total_steps = steps or trainer.total_steps
        if resume:
            trainer.resume()
        if init_from is not None:
            trainer.start_from(find_checkpoint(init_from, for_synthesis=True))
        return trainer.fit()

    return fit


def weights(run_dir) -> dict[str, np.ndarray]:
    return load_file(RunDir(run_dir).newest_checkpoint().folder / "model.safetensors")


def test_one_shape_is_compiled_and_none_after(vocoder_run, miniature):
    report = json.loads((vocoder_run / "report.json").read_text())
    config = miniature()
    assert report["shapes"] == [[config.data.batch_size, 0, config.vocoder.frames_per_segment]]
    assert report["traces"] == 1
    assert report["compilations_after_warmup"] == 0
    assert report["state"] == "complete"


def test_a_run_shows_its_segments_and_how_to_speak_with_them(miniature, tmp_path):
    config = miniature(task="vocoder", gradient_accumulation_steps=2)
    corpus = open_corpus(config)
    task = task_of(config, corpus)
    frames, clips = config.vocoder.frames_per_segment, len(corpus.train.cache)
    # Every clip is longer than a segment.
    assert task.describe_shapes() == (
        f"Segments: {frames} frames of each clip, 4 clips at once, {clips} clips in all; "
        "100.0% real frames"
    )
    command = shlex.split(task.next_command(tmp_path / "run"))
    assert command[:2] == ["myxtts", "synthesize"]
    assert command[command.index("--vocoder") + 1] == str(tmp_path / "run")
    # The run to speak with is an acoustic one.
    assert command[2] != str(tmp_path / "run")


def test_every_second_is_accounted_for(vocoder_run):
    seconds = json.loads((vocoder_run / "report.json").read_text())["seconds"]
    assert sum(seconds.values()) - seconds["wall"] == pytest.approx(seconds["wall"], rel=0.01)


def test_an_evaluation_measures_the_mel_distance_and_copies_a_recording(vocoder_run):
    lines = RunDir(vocoder_run).metric_lines()
    evaluated = [line for line in lines if "validation_loss" in line]
    assert len(evaluated) == 2
    assert all(0 < line["validation_mel_distance"] < 5 for line in evaluated)
    samples = sorted((vocoder_run / "samples").glob("*.wav"))
    assert [file.stem for file in samples] == ["recording", "step_00000003", "step_00000006"]
    copy, _ = soundfile.read(samples[-1])
    assert 0.001 < np.std(copy) < 0.5


def test_a_resumed_run_equals_one_that_never_stopped(vocoder_run, train, tmp_path):
    train(tmp_path / "run", steps=3)
    train(tmp_path / "run", resume=True)
    there, here = weights(vocoder_run), weights(tmp_path / "run")
    assert there.keys() == here.keys()
    for name in there:
        np.testing.assert_array_equal(there[name], here[name])


@pytest.mark.slow
def test_training_brings_copies_nearer(train, tmp_path):
    train(tmp_path / "run", max_steps=150, learning_rate=5e-3, evaluate_every=10)
    lines = RunDir(tmp_path / "run").metric_lines()
    losses = [line["validation_loss"] for line in lines if "validation_loss" in line]
    assert losses[-1] < losses[0] - 0.02


def test_resuming_or_starting_with_another_size_is_refused(vocoder_run, train, tmp_path):
    with pytest.raises(CheckpointError, match=r"vocoder\.width"):
        train(vocoder_run, resume=True, max_steps=8, width=24)
    with pytest.raises(CheckpointError, match=r"vocoder\.width"):
        train(tmp_path / "run", init_from=vocoder_run, width=24)
