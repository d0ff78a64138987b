import pytest

from myxtts.config.config import MODEL_SIZES, OPTIMIZATION_LEVELS, XTTSConfig
from myxtts.config.loading import config_to_start_with, load_config
from myxtts.errors import ConfigError


def test_a_size_sets_what_is_not_given():
    config = XTTSConfig(size="small", decoder_blocks=3, optimization_level="enhanced")
    assert (config.model.decoder_width, config.model.decoder_blocks) == (320, 3)
    assert config.training.ema_decay == 0.999


def test_a_level_reaches_every_section_and_what_is_given_wins():
    config = XTTSConfig(optimization_level="enhanced", augmentation={"gain_db": 1.0}, ema_decay=0.9)
    assert (config.training.learning_rate, config.training.ema_decay) == (1e-3, 0.9)
    assert (config.augmentation.speed, config.augmentation.gain_db) == (0.05, 1.0)
    assert XTTSConfig().augmentation.speed == 0.0


@pytest.mark.parametrize("size", MODEL_SIZES)
@pytest.mark.parametrize("level", OPTIMIZATION_LEVELS)
def test_every_preset_is_valid(size, level):
    config = load_config(
        overrides={"model": {"size": size}, "training": {"optimization_level": level}}
    )
    assert (config.model.size, config.training.optimization_level) == (size, level)


def test_sizes_grow():
    widths = [
        load_config(overrides={"model": {"size": size}}).model.decoder_width for size in MODEL_SIZES
    ]
    assert widths == sorted(set(widths))


def base(**settings):
    """The configuration of the included base as runs save it: under the name of another size."""
    return XTTSConfig(**({"size": "tiny", "decoder_width": 256, "voice_drop_rate": 0.1} | settings))


def test_starting_weights_bring_their_size_and_way_of_training():
    config = config_to_start_with(base(), XTTSConfig(batch_size=8))
    assert config.model.decoder_width == 256
    assert config.training.voice_drop_rate == 0.1
    assert config.data.batch_size == 8
    given = config_to_start_with(base(), XTTSConfig(size="base", voice_drop_rate=0.2))
    assert given.model.decoder_width == 256
    assert given.training.voice_drop_rate == 0.2


def test_another_size_than_that_of_the_starting_weights_is_refused_by_its_name():
    with pytest.raises(ConfigError, match=r"--model-size\): found tiny, .* are base"):
        config_to_start_with(base(), XTTSConfig(size="tiny"))
    partial = config_to_start_with(base(), XTTSConfig(size="small"), partially=True)
    assert partial.model.decoder_width == 320
