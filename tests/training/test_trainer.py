import dataclasses
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import LossParts
from myxtts.config.loading import load_config
from myxtts.errors import CheckpointError
from myxtts.models.xtts import LOSSES
from myxtts.runs.run_dir import RunDir, find_checkpoint
from myxtts.training.time_account import BUCKETS
from myxtts.training.trainer import XTTSTrainer


def test_a_run_leaves_all_its_files(trained_run, miniature):
    assert {file.name for file in trained_run.iterdir()} == {
        "config.yaml",
        "tokenizer.json",
        "shapes.json",
        "checkpoints",
        "metrics.jsonl",
        "samples",
        "report.json",
        "speakers.safetensors",
        "events",
        "best",
    }
    # With what the configuration left open.
    chosen = miniature(best_metric="validation_mel_distance")
    assert load_config(trained_run / "config.yaml") == chosen
    assert {file.name for file in (trained_run / "samples").iterdir()} == {
        "recording.wav",
        *(f"step_{step:08d}{kind}" for step in (3, 6) for kind in (".wav", "_alignment.png")),
    }
    assert find_checkpoint(trained_run).info.step == 6


def test_the_report_has_what_programs_read(trained_run, corpus):
    report = json.loads((trained_run / "report.json").read_text())
    assert report["steps"] == 6
    assert report["traces"] == 1
    assert report["compilations"] == report["compilations_after_warmup"] == 0
    assert report["shapes"] == [list(shape.padded) for shape in corpus.train.plan.shapes]
    assert 0 < report["valid_frame_ratio"] <= 1
    assert 0 < report["valid_work_ratio"] <= 1
    assert 0 < report["useful_utilisation"] < report["steady_utilisation"] < 1
    seconds = report["seconds"]
    assert set(seconds) == {*BUCKETS, "wall"}
    assert sum(seconds[name] for name in BUCKETS) == pytest.approx(seconds["wall"], rel=0.01)
    assert report["mode"] == "single-gpu-buffered"
    assert report["rejected"] == {}
    assert report["model_devices"] == ["CPU:0"]
    assert report["advice"]
    # TensorFlow counts memory on GPUs only.
    assert report["peak_memory_mb"] == report["gpus"] == {}
    assert {"strategy", "data_device", "buffer_size"} <= set(report)


def test_metrics_are_one_object_a_line(trained_run):
    lines = [json.loads(line) for line in (trained_run / "metrics.jsonl").read_text().splitlines()]
    training = [line for line in lines if "loss" in line]
    assert lines == training
    assert [line["step"] for line in training] == [2, 3, 4, 6]
    needed = {
        "step",
        "time",
        "loss",
        "learning_rate",
        "step_seconds",
        "data_wait_seconds",
        "valid_frame_ratio",
        "useful_utilisation",
        "steady_utilisation",
        *(f"{bucket}_share" for bucket in BUCKETS),
        "traces",
        "compilations",
        "compilations_after_warmup",
        "buffer_batches",
        "buffer_size",
        "prior_loss",
        "duration_loss",
        "flow_loss",
        "adversarial_loss",
        "phoneme_loss",
    }
    for line in training:
        assert needed <= set(line)
        parts = sum(line[f"{name}_loss"] for name in LossParts._fields)
        assert line["loss"] == pytest.approx(parts, rel=1e-5)
    assert [line["step"] for line in lines if "validation_loss" in line] == [3, 6]
    # An evaluation comes after its line, so its time is in the next one.
    assert [line["step"] for line in lines if line["evaluation_share"] > 0] == [4]


def test_tensorboard_gets_scalars_a_picture_and_sound(trained_run):
    (file,) = (trained_run / "events").iterdir()
    tags = {
        value.tag
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
    }
    names = {tag.rpartition("/")[2] for tag in tags}
    assert {"loss", "alignment", "sample", "recording", "configuration"} <= names
    assert {"_hparams_/session_start_info"} <= tags
    assert (trained_run / "samples" / "recording.wav").is_file()


def test_a_resumed_run_equals_one_that_never_stopped(trained_run, miniature, corpus, tmp_path):
    first = XTTSTrainer(miniature(), corpus, tmp_path / "run")
    first.total_steps = 3
    first.fit()
    second = XTTSTrainer(miniature(), corpus, tmp_path / "run")
    assert second.resume() == 3
    second.fit()
    whole, pieced = (find_checkpoint(run) for run in (trained_run, tmp_path / "run"))
    for name in ("step", "mel_mean", "mel_deviation", "seed", "epoch", "batch"):
        assert getattr(whole.info, name) == getattr(pieced.info, name)
    for name, value in whole.training_state().items():
        np.testing.assert_array_equal(pieced.training_state()[name], value, err_msg=name)
    for name, value in whole.ema_weights().items():
        np.testing.assert_array_equal(pieced.ema_weights()[name], value, err_msg=name)


def test_the_lines_of_repeated_steps_stand_once(miniature, corpus, tmp_path):
    first = XTTSTrainer(miniature(save_every=2), corpus, tmp_path / "run")
    first.total_steps = 3
    first.fit()
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step_00000003")
    second = XTTSTrainer(miniature(), corpus, tmp_path / "run")
    assert second.resume() == 2
    second.fit()
    lines = RunDir(tmp_path / "run").metric_lines()
    assert [line["step"] for line in lines] == [2, 3, 4, 6]


def test_a_run_is_not_resumed_to_a_shorter_one(trained_run, miniature, corpus):
    trainer = XTTSTrainer(miniature(max_steps=5), corpus, trained_run)
    with pytest.raises(CheckpointError, match="has already trained 6 steps, and its length is 5"):
        trainer.resume()


def test_resuming_with_another_vocabulary_is_refused(trained_run, miniature, corpus, tmp_path):
    shutil.copytree(trained_run, tmp_path / "run")
    grown = dataclasses.replace(corpus, tokenizer=corpus.tokenizer.grown(["new"], []))
    trainer = XTTSTrainer(miniature(max_steps=8), grown, tmp_path / "run")
    with pytest.raises(CheckpointError, match="a different vocabulary"):
        trainer.resume()


def test_resuming_another_model_is_refused(trained_run, miniature, corpus):
    trainer = XTTSTrainer(miniature(text_width=24, max_steps=8), corpus, trained_run)
    with pytest.raises(CheckpointError, match="does not match this configuration"):
        trainer.resume()


def test_starting_from_another_run_takes_its_averaged_weights(
    trained_run, miniature, corpus, tmp_path
):
    trainer = XTTSTrainer(miniature(seed=9), corpus, tmp_path / "new")
    trainer.start_from(find_checkpoint(trained_run))
    expected = find_checkpoint(trained_run).ema_weights()
    assert set(expected) == {variable.path for variable in trainer.model.trainable_variables}
    for variable in trainer.model.trainable_variables:
        np.testing.assert_array_equal(variable.numpy(), expected[variable.path])
    assert int(trainer.optimizer.step.numpy()) == 0


def test_training_lowers_the_loss(miniature, corpus, tmp_path):
    rate = {"learning_rate": 0.02, "warmup_steps": 5}
    config = miniature(max_steps=100, evaluate_every=100, save_every=100, log_every=10, **rate)
    XTTSTrainer(config, corpus, tmp_path / "run").fit()
    lines = RunDir(tmp_path / "run").metric_lines()
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < 0.7 * losses[0]


def test_a_trainer_takes_the_length_of_its_schedule(miniature, corpus, tmp_path):
    config = miniature(max_steps=None, epochs=3)
    trainer = XTTSTrainer(config, corpus, tmp_path / "run")
    assert trainer.total_steps == 3 * corpus.train.schedule.batches_per_epoch


def test_a_loss_is_a_function_and_a_line(miniature, corpus, tmp_path, monkeypatch):
    def size_loss(model, forward):
        return 0.5 * tf.reduce_sum(tf.square(forward.segment.predicted)) * forward.flow_scale

    monkeypatch.setitem(LOSSES, "size", size_loss)
    config = miniature(max_steps=2, evaluate_every=2, log_every=1)
    trainer = XTTSTrainer(config, corpus, tmp_path / "run")
    trainer.fit()
    lines = RunDir(tmp_path / "run").metric_lines()
    assert [line["step"] for line in lines] == [1, 2]
    for line in lines:
        assert line["size_loss"] > 0
        parts = sum(line[f"{name}_loss"] for name in LOSSES)
        assert line["loss"] == pytest.approx(parts, rel=1e-5)
    assert lines[-1]["validation_size_loss"] > 0
