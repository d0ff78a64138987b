"""Sections, presets, aliases and bounds of settings."""

import dataclasses

import pytest

from myxtts.config.config import (
    ALIASES,
    MODEL_SIZES,
    OPTIMIZATION_LEVELS,
    SECTIONS,
    DataConfig,
    XTTSConfig,
)
from myxtts.config.loading import config_to_start_with
from myxtts.config.schema import Section, frozen_settings, setting
from myxtts.errors import ConfigError


def test_flat_keywords_and_sections_mix():
    config = XTTSConfig(
        data=DataConfig(batch_size=8), model={"text_blocks": 2}, multi_gpu=True, visible_gpus="0,1"
    )
    assert (config.data.batch_size, config.model.text_blocks) == (8, 2)
    assert (config.training.multi_gpu, config.training.visible_gpus) == (True, "0,1")


def test_contract_defaults():
    data = DataConfig()
    assert (data.pad_to_fixed_length, data.max_text_length, data.max_mel_frames) == (
        False,
        200,
        None,
    )
    assert (data.n_mels, data.buffer_size, data.model_start_delay) == (80, 50, 2.0)
    assert XTTSConfig().training.multi_gpu is False
    assert data.batching_mode == "bucketed"
    assert DataConfig(pad_to_fixed_length=True).batching_mode == "fixed"


def test_every_setting_has_an_explanation_and_a_unique_name():
    names = [field.name for section in SECTIONS.values() for field in dataclasses.fields(section)]
    assert len(names) == len(set(names))
    for section in SECTIONS.values():
        for field in dataclasses.fields(section):
            assert field.metadata["explanation"].endswith(".")


@frozen_settings
class Kitchen(Section):
    """A section that no run has."""

    section_name = "kitchen"
    cups: int = setting(2, "Cups.", bounds=(1, 12))
    liters: float = setting(0.5, "Liters.", bounds=(0, None))
    milk: str | None = setting(None, "Milk; null: none.", choices=("cow", "oat"))
    is_open: bool = setting(True, "Whether it is open.")


def test_values_that_are_read():
    assert Kitchen(liters="1e-4").liters == 1e-4  # YAML 1.1 reads text here
    liters = Kitchen(liters=2).liters
    assert (liters, type(liters)) == (2.0, float)
    assert Kitchen(milk=None).milk is None


@pytest.mark.parametrize(
    "settings",
    [
        {"cups": "many"},
        {"cups": True},
        {"cups": None},
        {"is_open": 1},
        {"milk": 2},
        {"cups": 0},
        {"cups": 13},
        {"liters": float("nan")},
        {"milk": "oats"},
        {"milks": "oat"},
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_setting(settings):
    with pytest.raises(ConfigError, match=rf"kitchen\.{next(iter(settings))}\b"):
        Kitchen(**settings)


def test_sections_are_frozen():
    kitchen = Kitchen()
    with pytest.raises(ConfigError, match=r"with_\(cups=1\)"):
        kitchen.cups = 1  # type: ignore[misc]
    assert kitchen == Kitchen()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"bach_size": 8}, "batch_size"),
        ({"data": {"n_mel": 8}}, "data.n_mels"),
        ({"data": 3}, "data"),
        ({"data": DataConfig(), "pipeline_buffer_size": 50}, "buffer_size"),
        ({"size": "smal"}, "'small'"),
        ({"highest_hz": 12_000}, "11025"),
        ({"size": ["tiny"]}, "model.size"),
        ({"max_mel_frames": 801}, "data.max_mel_frames"),
        ({"segment_frames": 50}, "model.segment_frames"),
        ({"attention_heads": 7}, "model.attention_heads"),
        (
            {"task": "vocoder", "fft_samples": 2_048, "frames_per_segment": 31},
            "vocoder.frames_per_segment",
        ),
        ({"data": {"prefetch_buffer_size": 1}, "buffer_size": 2}, "data.buffer_size"),
    ],
)
def test_what_contradicts_or_is_unknown_is_named(settings, named):
    with pytest.raises(ConfigError) as error:
        XTTSConfig(**settings)
    assert named in str(error.value)


def test_aliases_are_settings():
    settings = set(vars(DataConfig()))
    assert settings.issuperset(ALIASES.values())
    assert settings.isdisjoint(ALIASES)
    assert XTTSConfig(prefetch_buffer_size=7) == XTTSConfig(data={"buffer_size": 7})


def test_a_copy_with_some_settings_changed():
    config = XTTSConfig(batch_size=8, learning_rate=1e-4, train_data="corpus")
    changed = config.with_(batch_size=4, augmentation={"speed": 0.1}, save_every=7)
    assert (changed.data.batch_size, changed.augmentation.speed) == (4, 0.1)
    assert (changed.saving.save_every, changed.data.train_data) == (7, "corpus")
    assert config.data.batch_size == 8
    assert changed.with_(batch_size=8, augmentation={"speed": 0.0}, save_every=500) == config
    with pytest.raises(ConfigError, match="batch_size"):
        config.with_(batch_sise=4)


@pytest.mark.parametrize("size", MODEL_SIZES)
@pytest.mark.parametrize("level", OPTIMIZATION_LEVELS)
def test_every_preset_is_valid(size, level):
    config = XTTSConfig(size=size, optimization_level=level)
    assert (config.model.size, config.training.optimization_level) == (size, level)


def test_sizes_grow():
    widths = [XTTSConfig(size=size).model.decoder_width for size in MODEL_SIZES]
    assert widths == sorted(set(widths))


def test_presets_reach_every_section_and_explicit_settings_win():
    config = XTTSConfig(
        size="small",
        decoder_blocks=3,
        optimization_level="enhanced",
        augmentation={"gain_db": 1.0},
        ema_decay=0.9,
    )
    assert (config.model.decoder_width, config.model.decoder_blocks) == (320, 3)
    assert (config.training.learning_rate, config.training.ema_decay) == (1e-3, 0.9)
    assert (config.augmentation.speed, config.augmentation.gain_db) == (0.05, 1.0)
    both = XTTSConfig(task="vocoder", optimization_level="enhanced").training
    assert both.adversarial_start == XTTSConfig(task="vocoder").training.adversarial_start < 0.5
    assert both.warmup_steps == XTTSConfig(optimization_level="enhanced").training.warmup_steps > 50


def test_a_copy_of_another_size_or_level_replaces_the_presets():
    config = XTTSConfig(size="small", optimization_level="enhanced", batch_size=8)
    assert config.with_(size="tiny").model == XTTSConfig().model
    assert config.with_(size="normal").model == XTTSConfig(size="normal").model
    basic = config.with_(optimization_level="basic")
    assert basic == XTTSConfig(size="small", batch_size=8)
    assert config.with_(optimization_level="experimental", learning_rate=1.0) == XTTSConfig(
        size="small", optimization_level="experimental", batch_size=8, learning_rate=1.0
    )


def base(**settings):
    """Return the configuration of the included base under the name of another size, as in runs."""
    return XTTSConfig(**({"size": "tiny", "decoder_width": 256, "voice_drop_rate": 0.1} | settings))


def test_starting_weights_bring_their_size_and_way_of_training():
    config = config_to_start_with(base(), XTTSConfig(batch_size=8))
    assert config.model.decoder_width == 256
    assert config.training.voice_drop_rate == 0.1
    assert config.data.batch_size == 8
    given = config_to_start_with(base(), XTTSConfig(size="base", voice_drop_rate=0.2))
    assert (given.model.decoder_width, given.training.voice_drop_rate) == (256, 0.2)


def test_another_size_than_that_of_the_starting_weights_is_refused_by_its_name():
    with pytest.raises(ConfigError, match=r"--model-size\): found tiny, .* are base"):
        config_to_start_with(base(), XTTSConfig(size="tiny"))
    partial = config_to_start_with(base(), XTTSConfig(size="small"), partially=True)
    assert partial.model.decoder_width == 320
