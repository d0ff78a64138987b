"""Loads a configuration from its layers: defaults < presets < YAML file < command line."""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from myxtts.config.config import (
    SECTIONS,
    SIZES,
    ModelConfig,
    XTTSConfig,
    find_setting,
    resolve_aliases,
    settings_of,
)
from myxtts.config.schema import Layer, did_you_mean
from myxtts.errors import ConfigError
from myxtts.files import write_file

_log = logging.getLogger(__name__)
_BUILTIN = Path(__file__).parents[1] / "configs"

# Machine-specific folders and code paths, never read from a run folder, which may be untrusted.
SETTINGS_OF_THE_MACHINE = (
    ("data", "train_data"),
    ("data", "val_data"),
    ("data", "cache_dir"),
    ("vocoder", "mels_from"),
    ("training", "xla"),
)


def load_config(
    file: Path | str | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    assignments: Iterable[str] = (),
    *,
    base: Layer | None = None,
    flag_names: Mapping[str, str] | None = None,
) -> XTTSConfig:
    """Load the configuration in `file`, or else `base`, with changes on top.

    `overrides` come from flags; `flag_names` maps settings to flags of another name. `assignments`
    are `section.key=value` and take precedence over everything. A `file` that is a string may also
    be the name of a built-in configuration, such as "demo".
    """
    lowest = base or {} if file is None else resolve_aliases(read_yaml(file), str(file))
    from_flags = resolve_aliases(overrides or {})
    assigned = resolve_aliases(parse_assignments(assignments), "--set")
    try:
        return XTTSConfig(**merge([lowest, from_flags, assigned]))
    except ConfigError as error:
        message = _blame_command_line(str(error), assigned, from_flags, flag_names or {})
        if message is None:
            message = str(error) if file is None else f"{file}: {error}"
        raise ConfigError(message) from None


def _blame_command_line(
    message: str, assigned: Layer, from_flags: Layer, flag_names: Mapping[str, str]
) -> str | None:
    """Return the message with the flag that gave the value, or None if none did."""
    named = re.findall(rf"\b({'|'.join(SECTIONS)})\.(\w+)", message)
    if any(name in assigned.get(section, {}) for section, name in named):
        return f"--set: {message}"
    for section, name in named:
        if name in from_flags.get(section, {}):
            flag = flag_names.get(name, f"--{name.replace('_', '-')}")
            return f"{flag}: {message.removeprefix(f'{section}.{name}: ')}"
    return None


def merge(layers: Iterable[Layer]) -> Layer:
    merged: Layer = {}
    for layer in layers:
        for section, values in layer.items():
            merged.setdefault(section, {}).update(values)
    return merged


def load_config_of_run(file: Path) -> XTTSConfig:
    """Load the configuration that a run was trained with, as it was recorded."""
    try:
        return XTTSConfig(**_read_layer_of_run(file))
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def read_layer_for_resuming(file: Path) -> Layer:
    """Read the settings of a run without those that belong to the user's machine."""
    layer = _read_layer_of_run(file)
    for section, name in SETTINGS_OF_THE_MACHINE:
        layer.get(section, {}).pop(name, None)
    return layer


def _read_layer_of_run(file: Path) -> Layer:
    layer = read_yaml(file)
    for section, values in layer.items():
        for name in values.keys() - settings_of(section):
            _log.info("%s: this version has no setting %s.%s", file, section, name)
            del values[name]
    return layer


class _Loader(yaml.SafeLoader):
    """A loader that rejects duplicate keys, of which YAML would keep the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        lines: dict[str, int] = {}
        for key, _ in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines:
                raise yaml.YAMLError(f"{name}: on line {lines[name]} and again on line {line}")
            lines[name] = line
        return super().construct_mapping(node, deep)


def _parse_yaml(text: str | bytes) -> Any:
    """Parse YAML; every error in it is a yaml.YAMLError."""
    try:
        return yaml.load(text, _Loader)
    # Impossible dates and numbers are raised as Python's own errors.
    except (ValueError, OverflowError, RecursionError) as error:
        raise yaml.YAMLError(str(error)) from None


def read_yaml(file: Path | str) -> Layer:
    """Read the settings of a file; a string may also name a built-in configuration."""
    if isinstance(file, str):
        file = find_config(file)
    try:
        content = _parse_yaml(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{file}: not valid YAML ({reason})") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"{file}: found {type(content).__name__}, expected sections such as data:"
        )
    for section, values in content.items():
        try:
            _require_section(str(section))
        except ConfigError as error:
            raise ConfigError(f"{file}: {error}") from None
        if values is not None and not isinstance(values, dict):
            raise ConfigError(f"{file}: {section}: found {values!r}, expected settings below it")
    return {section: dict(values or {}) for section, values in content.items()}


def _require_section(section: str) -> None:
    if section not in SECTIONS:
        hint = did_you_mean(section, SECTIONS)
        raise ConfigError(f"unknown section '{section}', allowed: {', '.join(SECTIONS)}{hint}")


def parse_assignments(assignments: Iterable[str]) -> Layer:
    """Parse `section.key=value`, where the section may be left out."""
    layer: Layer = {}
    for assignment in assignments:
        key, separator, text = (part.strip() for part in assignment.partition("="))
        section, dot, name = key.partition(".")
        try:
            if dot:
                _require_section(section)
            elif key and key not in SECTIONS:
                section, name = find_setting(key)
            if not (separator and name):
                raise ConfigError("expected section.key=value")
            layer.setdefault(section, {})[name] = _parse_yaml(text)
        except yaml.YAMLError:
            raise ConfigError(f"--set {assignment}: the value is not valid YAML") from None
        except ConfigError as error:
            raise ConfigError(f"--set {assignment}: {error}") from None
    return layer


def save_config(config: XTTSConfig, file: Path) -> None:
    """Write every setting, so that the run does not depend on the defaults of this version."""
    text = yaml.safe_dump(config.as_dict(), sort_keys=False, allow_unicode=True)
    # Readable by its owner only, because it names folders of this machine.
    write_file(file, text)


def builtin_names() -> list[str]:
    return sorted(file.stem for file in _BUILTIN.glob("*.yaml"))


def find_config(name_or_file: str) -> Path:
    """Return the file of this path, or else the built-in configuration of this name."""
    file = Path(name_or_file)
    # A folder is not a configuration: `make demo` leaves one that is called demo.
    if file.exists() and not file.is_dir():
        return file
    names = builtin_names()
    if name_or_file in names:
        return _BUILTIN / f"{name_or_file}.yaml"
    raise ConfigError(
        f"{name_or_file}: found neither a file nor a built-in configuration of this name; "
        f"built in are {', '.join(names)}{did_you_mean(file.stem, names)}"
    )


Settings = dict[str, dict[str, Any]]

# Weights and prepared features are valid only with these settings.
_SECTIONS_OF_THE_MODEL = ("model", "audio", "text")
_SIZES_OF_THE_VOCODER = ("width", "blocks", "refining_blocks")
_SETTINGS_OF_THE_MODEL = (
    "data.n_mels",
    "training.task",
    *(f"vocoder.{name}" for name in _SIZES_OF_THE_VOCODER),
)
# Weights of the same shape have another meaning if these differ.
_MEANING_OF_WEIGHTS = (
    "audio.sample_rate_hz",
    "audio.fft_samples",
    "audio.hop_samples",
    "audio.highest_hz",
    "text.tokens",
    "model.attention_heads",
)
_SIZE = "model.size"
# They decide how a model is trained, not what its weights are.
_WITHOUT_WEIGHTS = {_SIZE, "model.segment_frames", "model.reference_frames"}
# Settings that a run inherits with the weights it starts from.
_WAYS_OF_TRAINING = (
    *("text_drop_rate", "text_guidance", "voice_drop_rate"),
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
    """Return the settings that a run shares with the run whose weights it starts from."""
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

    Settings of `start` are the defaults of `config`. Another size is an error unless the weights
    may fit `partially`.
    """
    below = _settings_to_start_with(start)
    if _SIZE in settings_against(start, config):
        if not partially:
            found = next((name for name in SIZES if _has_size(start.model, name)), "another size")
            raise ConfigError(
                f"{_SIZE} (--model-size): found {config.model.size}, but the starting weights are "
                f"{found}; omit it, or use --from-scratch"
            )
        del below["model"]
    return XTTSConfig(
        **{name: below.get(name, {}) | config.given.get(name, {}) for name in SECTIONS}
    )


def settings_against(start: XTTSConfig, config: XTTSConfig) -> list[str]:
    """Return the names of the given settings of `config` that rule out the weights of `start`."""
    own, theirs, given = config.as_dict(), start.as_dict(), config.given
    model = (own if "size" in given.get("model", {}) else given).get("model", {})
    shaping = {f"model.{name}" for name in model} - _WITHOUT_WEIGHTS
    by_name = {*_MEANING_OF_WEIGHTS, "data.n_mels"}
    shaping |= {f"{section}.{name}" for section in given for name in given[section]} & by_name
    against = []
    for name in sorted(shaping):
        section, _, setting = name.partition(".")
        if own[section][setting] != theirs[section][setting]:
            is_given = setting in given.get(section, {})
            against.append(name if is_given else _SIZE)
    return list(dict.fromkeys(against))


def _has_size(model: ModelConfig, size: str) -> bool:
    """Return whether a model has the sizes of a preset, even under another name."""
    return dataclasses.replace(model, size=size) == ModelConfig(size=size, **SIZES[size])


def _settings_to_start_with(config: XTTSConfig) -> Settings:
    settings = settings_of_the_model(config)
    training = config.training
    settings["training"] |= {name: getattr(training, name) for name in _WAYS_OF_TRAINING}
    # Without it the model memorizes the durations of a small corpus.
    settings["augmentation"] = {"speed": config.augmentation.speed}
    if training.adversarial_weight or training.task == "vocoder":
        # Weights that a discriminator has sharpened would be blurred without one, and magnitudes
        # of a vocoder that were trained long enough would get worse.
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
