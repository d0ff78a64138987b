"""Loads a configuration from its layers: defaults < presets < YAML file < command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from myxtts.config.aliases import resolve_aliases
from myxtts.config.builtin import find_config
from myxtts.config.config import SECTIONS, XTTSConfig, find_setting
from myxtts.config.names import did_you_mean
from myxtts.config.schema import Layer
from myxtts.errors import ConfigError
from myxtts.whole_files import write_whole_file


def _parse_yaml(text: str) -> Any:
    """Every error in the text is raised as a yaml.YAMLError."""
    try:
        return yaml.safe_load(text)
    # Impossible dates and numbers are raised as Python's own errors.
    except (ValueError, OverflowError, RecursionError) as error:
        raise yaml.YAMLError(str(error)) from None


def load_config(
    file: Path | str | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    assignments: Iterable[str] = (),
    *,
    flag_names: Mapping[str, str] | None = None,
) -> XTTSConfig:
    """The resolved configuration; `assignments` are `section.key=value` and win over all else.

    `overrides` come from flags, whose names are in `flag_names` where they are not the setting's.

    A `file` that is a string may also be the name of a built-in configuration, such as "demo".
    """
    from_file = {} if file is None else resolve_aliases(read_yaml(file), str(file))
    from_flags = resolve_aliases(overrides or {})
    assigned = resolve_aliases(parse_assignments(assignments), "--set")
    layers = [from_file, from_flags, assigned]
    try:
        return XTTSConfig(**merge(layers))
    except ConfigError as error:
        message = _blame_command_line(str(error), assigned, from_flags, flag_names or {})
        if message is None:
            message = str(error) if file is None else f"{file}: {error}"
        raise ConfigError(message) from None


def _blame_command_line(
    message: str, assigned: Layer, from_flags: Layer, flag_names: Mapping[str, str]
) -> str | None:
    """The message if --set or a flag gave one of the settings that it names, and says so."""
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


def read_yaml(file: Path | str) -> Layer:
    """The settings of a file; a string may also name a built-in configuration."""
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
        if section not in SECTIONS:
            hint = did_you_mean(str(section), SECTIONS)
            raise ConfigError(
                f"{file}: unknown section '{section}', allowed: {', '.join(SECTIONS)}{hint}"
            )
        if values is not None and not isinstance(values, dict):
            raise ConfigError(f"{file}: {section}: found {values!r}, expected settings below it")
    return {section: dict(values or {}) for section, values in content.items()}


def parse_assignments(assignments: Iterable[str]) -> Layer:
    layer: Layer = {}
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not (separator and key.strip()):
            raise ConfigError(f"--set {assignment}: expected section.key=value")
        try:
            section, name = _place_of_assigned(key.strip())
        except ConfigError as error:
            raise ConfigError(f"--set {assignment}: {error}") from None
        try:
            value = _parse_yaml(text)
        except yaml.YAMLError:
            raise ConfigError(f"--set {assignment}: the value is not valid YAML") from None
        layer.setdefault(section, {})[name] = value
    return layer


def _place_of_assigned(key: str) -> tuple[str, str]:
    """Section and name of `section.key`, or of a setting's name alone."""
    section, dot, name = key.partition(".")
    if dot and section not in SECTIONS:
        hint = did_you_mean(section, SECTIONS)
        raise ConfigError(f"unknown section '{section}', allowed: {', '.join(SECTIONS)}{hint}")
    if section in SECTIONS and not name:
        raise ConfigError("expected section.key=value")
    return (section, name) if dot else find_setting(key)


def save_config(config: XTTSConfig, file: Path) -> None:
    """Writes every setting, so that the run does not depend on the defaults of this version."""
    text = yaml.safe_dump(config.as_dict(), sort_keys=False, allow_unicode=True)
    # For its owner alone: it names folders of this machine.
    write_whole_file(file, text)
