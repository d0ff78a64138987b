"""Static shapes from Python and YAML: names, statistics, and batches of exactly one shape."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import DataConfig, ModelConfig, TrainingConfig, XTTSConfig
from myxtts.config.loading import load_config
from myxtts.data.corpus import open_corpus
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.errors import ConfigError, DataError
from myxtts.training.trainer import XTTSTrainer

FIXED = """
data:
  pad_to_fixed_length: true
  max_text_length: 200
  max_mel_frames: 800
  n_mels: 80
  batch_size: 28

training:
  gradient_accumulation_steps: 4
"""


def test_settings_and_their_defaults():
    data = DataConfig()
    assert data.pad_to_fixed_length is False
    assert data.max_text_length == 200
    assert data.max_mel_frames is None
    assert data.n_mels == 80
    assert data.batch_size > 0
    config = XTTSConfig(
        data=DataConfig(pad_to_fixed_length=True, max_text_length=150, max_mel_frames=600),
        model=ModelConfig(size="tiny"),
        training=TrainingConfig(multi_gpu=False),
    )
    assert config.data.batching_mode == "fixed"


def test_settings_are_changed_by_a_copy():
    config = XTTSConfig()
    for name in ("multi_gpu", "data"):
        with pytest.raises(ConfigError, match=f"^{name}: "):
            setattr(config, name, True)
    with pytest.raises(ConfigError, match=r"^data.pad_to_fixed_length: "):
        config.data.pad_to_fixed_length = True
    assert config.with_(pad_to_fixed_length=True).data.pad_to_fixed_length is True


def test_settings_in_yaml(tmp_path):
    def read(text):
        file = tmp_path / "config.yaml"
        file.write_text(text, encoding="utf-8")
        return load_config(file)

    assert read(FIXED.replace("pad_to_fixed_length", "enable_static_shapes")) == read(FIXED)
    config = read(FIXED)
    assert config.data.batching_mode == "fixed"
    assert (config.data.max_text_length, config.data.max_mel_frames) == (200, 800)
    assert (config.data.batch_size, config.training.gradient_accumulation_steps) == (28, 4)


def test_statistics(demo_corpus):
    stats = LJSpeechDataset(demo_corpus).get_statistics()
    for length in ("text_length", "mel_length"):
        assert (
            stats[length]["min"]
            <= stats[length]["mean"]
            <= stats[length]["percentile_95"]
            <= stats[length]["percentile_99"]
            <= stats[length]["max"]
        )


def test_a_dataset_says_how_settings_are_passed(demo_corpus):
    with pytest.raises(DataError, match="DataConfig"):
        LJSpeechDataset(demo_corpus, DataConfig())


@pytest.fixture(scope="module")
def fixed(miniature):
    return miniature(pad_to_fixed_length=True, max_text_length=80, max_mel_frames=600)


def test_every_batch_of_an_epoch_has_the_one_shape(fixed, tmp_path):
    corpus = open_corpus(fixed)
    trainer = XTTSTrainer(fixed, corpus, tmp_path / "run")
    schedule = corpus.train.schedule
    for index in range(schedule.batches_per_epoch + 1):
        batch = trainer.task.load(schedule.batch_at(index))
        assert batch.token_ids.shape == [4, 80]
        assert batch.mel.shape == [4, 600, 80]


def test_a_batch_of_another_shape_is_an_error_and_not_a_trace(fixed, tmp_path):
    corpus = open_corpus(fixed)
    trainer = XTTSTrainer(fixed, corpus, tmp_path / "run")
    trainer.prepare()
    step = trainer.stepper.compiled_step
    traces = step.experimental_get_tracing_count()
    batch = trainer.task.load(corpus.train.schedule.batch_at(0))
    longer = tf.pad(batch.mel, [[0, 0], [0, 2], [0, 0]])
    with pytest.raises(DataError):
        trainer.stepper.run(1, batch._replace(mel=longer))
    with pytest.raises((TypeError, ValueError)):
        step(batch._replace(mel=longer), tf.constant(False))
    assert step.experimental_get_tracing_count() == traces == 1


def test_accumulation_trains_like_the_large_batch_in_the_memory_of_the_small(fixed, tmp_path):
    config = fixed.with_(batch_size=2, gradient_accumulation_steps=2)
    report = XTTSTrainer(config, open_corpus(config), tmp_path / "run").fit()
    assert config.clips_per_step == 4
    assert report.shapes == [[2, 80, 600]]
    assert np.isfinite(report.valid_frame_ratio)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))
