"""What differs between two configurations, and which differences break a trained model."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from myxtts.config.config import SECTIONS, ModelConfig, XTTSConfig
from myxtts.config.presets import SIZES
from myxtts.errors import ConfigError

Settings = dict[str, dict[str, Any]]

# Weights and prepared features mean something only with these.
_SECTIONS_OF_THE_MODEL = ("model", "audio", "text")
_SIZES_OF_THE_VOCODER = ("width", "blocks", "refining_blocks")
_SETTINGS_OF_THE_MODEL = (
    "data.n_mels",
    "training.task",
    *(f"vocoder.{name}" for name in _SIZES_OF_THE_VOCODER),
)
# With others of these, weights of the same shape mean something else.
_MEANING_OF_WEIGHTS = (
    "audio.sample_rate_hz",
    "audio.fft_samples",
    "audio.hop_samples",
    "audio.highest_hz",
    "text.tokens",
    "model.attention_heads",
)
# Weights that were trained like this go on like this.
_WAYS_OF_TRAINING = (
    *("text_drop_rate", "text_guidance", "voice_drop_rate", "voice_guidance"),
    *("voice_noise", "adversarial_weight", "phoneme_weight"),
)


class Change(NamedTuple):
    name: str
    saved: Any
    given: Any

    @property
    def breaks_the_model(self) -> bool:
        section = self.name.partition(".")[0]
        return section in _SECTIONS_OF_THE_MODEL or self.name in _SETTINGS_OF_THE_MODEL

    @property
    def changes_what_weights_mean(self) -> bool:
        return self.name in _MEANING_OF_WEIGHTS

    def __str__(self) -> str:
        return f"{self.name}: {self.saved} -> {self.given}"


def changes_between(saved: XTTSConfig, given: XTTSConfig) -> list[Change]:
    return _differences(saved.as_dict(), given.as_dict())


def settings_of_the_model(config: XTTSConfig) -> Settings:
    """What two runs have in common where one has the weights of the other."""
    settings = config.as_dict()
    return {
        "audio": settings["audio"],
        "text": {"tokens": config.text.tokens},
        "data": {"n_mels": config.data.n_mels},
        "model": settings["model"],
        "vocoder": {name: settings["vocoder"][name] for name in _SIZES_OF_THE_VOCODER},
        "training": {"task": config.training.task},
    }


def config_to_start_with(
    start: XTTSConfig, config: XTTSConfig, *, partially: bool = False
) -> XTTSConfig:
    """Return the configuration of a run that starts with the weights of `start`.

    Settings of `start` hold where `config` was given none. Another size is an error, unless the
    weights need to fit `partially` only.
    """
    below = _settings_to_start_with(start)
    size = config.given.get("model", {}).get("size")
    if size is not None and not _has_size(start.model, size):
        if not partially:
            found = next((name for name in SIZES if _has_size(start.model, name)), "another size")
            raise ConfigError(
                f"model.size (--model-size): found {size}, but the starting weights are {found}; "
                "omit it, or train from scratch"
            )
        del below["model"]
    return XTTSConfig(
        **{name: below.get(name, {}) | config.given.get(name, {}) for name in SECTIONS}
    )


def _has_size(model: ModelConfig, size: str) -> bool:
    """Whether a model has the numbers of a preset, whatever name was saved with it."""
    return dataclasses.replace(model, size=size) == ModelConfig(size=size, **SIZES[size])


def _settings_to_start_with(config: XTTSConfig) -> Settings:
    settings = settings_of_the_model(config)
    training = config.training
    settings["training"] |= {name: getattr(training, name) for name in _WAYS_OF_TRAINING}
    # Without it the durations of a small corpus are learnt by heart.
    settings["augmentation"] = {"speed": config.augmentation.speed}
    if training.adversarial_weight or training.task == "vocoder":
        # Weights that a discriminator has sharpened would be blurred without one, and magnitudes
        # of a vocoder that have been learnt long enough would get worse.
        settings["training"]["adversarial_start"] = 0.0
    return settings


def changes_of_the_model(saved: XTTSConfig, given: XTTSConfig) -> list[Change]:
    return _differences(settings_of_the_model(saved), settings_of_the_model(given))


def _differences(before: Settings, after: Settings) -> list[Change]:
    return [
        Change(f"{section}.{name}", value, after[section][name])
        for section, values in before.items()
        for name, value in values.items()
        if value != after[section][name]
    ]
