import dataclasses

import pytest

from myxtts.config.config import (
    SECTIONS,
    DataConfig,
    XTTSConfig,
)
from myxtts.errors import ConfigError


def test_flat_keywords_reach_their_sections():
    config = XTTSConfig(multi_gpu=True, visible_gpus="0,1", batch_size=8, n_mels=64)
    assert config.training.multi_gpu is True
    assert config.training.visible_gpus == "0,1"
    assert (config.data.batch_size, config.data.n_mels) == (8, 64)


def test_sections_and_flat_keywords_mix():
    config = XTTSConfig(data=DataConfig(batch_size=8), model={"text_blocks": 2}, seed=7)
    assert (config.data.batch_size, config.model.text_blocks, config.training.seed) == (8, 2, 7)


def test_contract_defaults():
    data = DataConfig()
    assert data.pad_to_fixed_length is False
    assert data.max_text_length == 200
    assert data.max_mel_frames is None
    assert data.n_mels == 80
    assert data.buffer_size == 50
    assert XTTSConfig().data.model_start_delay == 2.0
    assert XTTSConfig().training.multi_gpu is False


def test_every_setting_has_an_explanation_and_a_name_of_its_own():
    names = [field.name for section in SECTIONS.values() for field in dataclasses.fields(section)]
    assert len(names) == len(set(names))
    for section in SECTIONS.values():
        for field in dataclasses.fields(section):
            assert field.metadata["explanation"].endswith(".")


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            {"bach_size": 8},
            "unknown setting 'bach_size'; did you mean 'batch_size'?",
        ),
        (
            {"data": {"n_mel": 8}},
            "unknown setting 'data.n_mel'; did you mean 'data.n_mels'?",
        ),
        (
            {"batch_size": "many"},
            "data.batch_size: found 'many' (str), expected int",
        ),
        (
            {"batch_size": True},
            "data.batch_size: found True (bool), expected int",
        ),
        (
            {"max_mel_frames": 2.5},
            "data.max_mel_frames: found 2.5 (float), expected int or null",
        ),
        (
            {"batch_size": 0},
            "data.batch_size: found 0, allowed: 1 or more",
        ),
        (
            {"validation_fraction": 0.9},
            "data.validation_fraction: found 0.9, allowed: 0.5 or less",
        ),
        (
            {"learning_rate": float("nan")},
            "training.learning_rate: found nan, expected a finite number",
        ),
        (
            {"size": "smal"},
            "model.size: found 'smal', allowed: tiny, base, small, normal, big; "
            "did you mean 'small'?",
        ),
        (
            {"data": 3},
            "data: found 3, expected settings such as data: {...}",
        ),
        (
            {"highest_hz": 12_000},
            "audio.highest_hz: found 12000.0, expected at most half of "
            "audio.sample_rate_hz (11025)",
        ),
        ({"clip_norm": 0.0}, "training.clip_norm: found 0.0, allowed: 0.001 or more"),
        ({"size": ["tiny"]}, "model.size: found ['tiny'] (list), expected str"),
        (
            {"max_mel_frames": 801},
            "data.max_mel_frames: found 801, expected a multiple of 2",
        ),
        (
            {"segment_frames": 50},
            "model.segment_frames: found 50, expected a multiple of 8",
        ),
        (
            {"task": "vocoder", "fft_samples": 2_048, "frames_per_segment": 31},
            "vocoder.frames_per_segment: found 31, expected at least 32: four times "
            "audio.fft_samples (2048) in hops of audio.hop_samples (256)",
        ),
    ],
)
def test_wrong_settings_are_named(settings, line):
    with pytest.raises(ConfigError) as error:
        XTTSConfig(**settings)
    assert str(error.value) == line


def test_a_copy_with_some_settings_changed():
    config = XTTSConfig(batch_size=8, learning_rate=1e-4, train_data="corpus")
    changed = config.with_(batch_size=4, augmentation={"speed": 0.1}, save_every=7)
    assert (changed.data.batch_size, changed.augmentation.speed) == (4, 0.1)
    assert changed.saving.save_every == 7
    assert changed.data.train_data == "corpus"
    assert config.data.batch_size == 8
    assert changed.with_(batch_size=8, augmentation={"speed": 0.0}, save_every=500) == config
    with pytest.raises(ConfigError, match="unknown setting 'batch_sise'; did you mean"):
        config.with_(batch_sise=4)


def test_a_task_and_a_level_may_set_different_things_of_one_section():
    both = XTTSConfig(task="vocoder", optimization_level="enhanced").training
    assert both.adversarial_start == XTTSConfig(task="vocoder").training.adversarial_start < 0.5
    assert both.warmup_steps == XTTSConfig(optimization_level="enhanced").training.warmup_steps > 50


def test_a_copy_of_another_size_or_level_has_all_that_it_sets():
    config = XTTSConfig(size="small", optimization_level="enhanced", batch_size=8)
    assert config.with_(size="tiny").model == XTTSConfig().model
    assert config.with_(size="normal").model == XTTSConfig(size="normal").model
    basic = config.with_(optimization_level="basic")
    assert basic == XTTSConfig(size="small", batch_size=8)
    assert config.with_(optimization_level="experimental", learning_rate=1.0) == XTTSConfig(
        size="small", optimization_level="experimental", batch_size=8, learning_rate=1.0
    )
