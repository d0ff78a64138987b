"""Loads a configuration from its layers: defaults < presets < YAML file < command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from myxtts.config.builtin import find_config
from myxtts.config.config import SECTIONS, XTTSConfig, find_setting
from myxtts.config.moved import (
    OLD_SECTIONS,
    announce,
    relocated,
    with_accumulated_batches,
    with_settings_of_its_time,
)
from myxtts.config.names import did_you_mean
from myxtts.config.schema import Layer
from myxtts.errors import ConfigError
from myxtts.plain_files import read_plain
from myxtts.whole_files import write_whole_file

# Version of what settings mean, in the files of saved runs. In version 1, which no file names,
# gradient accumulation split a batch; now it adds up whole batches.
_VERSION = 2
_LARGEST_FILE_BYTES = 1 << 20
_DEEPEST_NESTING = 16
# All settings are about a hundred; YAML of this size takes a fraction of a second.
_MOST_VALUES = 5_000
_LONGEST_NUMBER = 64


class _PlainLoader(yaml.SafeLoader):
    """YAML without what lets a small file take much time or memory.

    No aliases, no deep nesting, no lists of many thousands, no numbers of many digits, and none in
    base 60: 1:30 is text.
    """

    _depth = 0
    _values = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases such as *name are not supported")
        self._depth += 1
        self._values += 1
        if self._values > _MOST_VALUES:
            raise yaml.YAMLError(f"more than {_MOST_VALUES} values")
        if self._depth > _DEEPEST_NESTING:
            raise yaml.YAMLError("settings are nested too deeply")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def _number(self, node: yaml.ScalarNode) -> Any:
        if ":" in node.value:
            return node.value
        if len(node.value) > _LONGEST_NUMBER:
            raise yaml.YAMLError(f"a number of {len(node.value)} characters")
        is_int = node.tag == "tag:yaml.org,2002:int"
        return self.construct_yaml_int(node) if is_int else self.construct_yaml_float(node)


for _tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"):
    _PlainLoader.add_constructor(_tag, _PlainLoader._number)


def _parse_yaml(text: str) -> Any:
    """Every error in the text is raised as a yaml.YAMLError."""
    try:
        return yaml.load(text, _PlainLoader)
    # Impossible dates and numbers are raised as Python's own errors.
    except (ValueError, OverflowError, RecursionError) as error:
        raise yaml.YAMLError(str(error)) from None


def load_config(
    file: Path | str | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    assignments: Iterable[str] = (),
    *,
    is_saved_run: bool = False,
    flag_names: Mapping[str, str] | None = None,
) -> XTTSConfig:
    """The resolved configuration; `assignments` are `section.key=value` and win over all else.

    `overrides` come from flags, whose names are in `flag_names` where they are not the setting's.

    A `file` that is a string may also be the name of a built-in configuration, such as "demo".
    Old names are announced, but not those in the file of a saved run: nobody typed them.
    """
    version, settings = (
        _read_versioned(file, is_saved_run=is_saved_run) if file is not None else (_VERSION, {})
    )
    from_file, moves = relocated(settings, str(file), is_saved_run=is_saved_run)
    if (version or (1 if is_saved_run else _VERSION)) < 2:
        from_file = with_accumulated_batches(from_file)
    if is_saved_run:
        from_file = with_settings_of_its_time(from_file)
    from_flags, moves_of_flags = relocated(overrides or {})
    assigned, moves_of_assignments = relocated(parse_assignments(assignments), "--set")
    announce([*([] if is_saved_run else moves), *moves_of_flags, *moves_of_assignments])
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
    return _read_versioned(file)[1]


def accumulation_split_batches(saved_config: Path) -> bool:
    """Whether a run was saved when gradient accumulation split its batches, and did so."""
    version, settings = _read_versioned(saved_config, is_saved_run=True)
    return (version or 1) < 2 and settings != with_accumulated_batches(settings)


def _read_versioned(file: Path | str, *, is_saved_run: bool = False) -> tuple[int | None, Layer]:
    if isinstance(file, str):
        file = find_config(file)
    try:
        content = _parse_yaml(
            read_plain(file, _LARGEST_FILE_BYTES, follow_links=not is_saved_run).decode("utf-8-sig")
        )
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{file}: not valid YAML ({reason})") from None
    if content is None:
        return None, {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"{file}: found {type(content).__name__}, expected sections such as data:"
        )
    version = content.pop("version", None)
    if version not in (None, *range(1, _VERSION + 1)):
        raise ConfigError(
            f"{file}: version: found {version!r}, expected at most {_VERSION}; it was "
            "written by a newer MyXTTS: update this one"
        )
    for section, values in content.items():
        if section not in SECTIONS and section not in OLD_SECTIONS:
            hint = did_you_mean(str(section), SECTIONS)
            raise ConfigError(
                f"{file}: unknown section '{section}', allowed: {', '.join(SECTIONS)}{hint}"
            )
        if values is not None and not isinstance(values, dict):
            raise ConfigError(f"{file}: {section}: found {values!r}, expected settings below it")
    return version, {section: dict(values or {}) for section, values in content.items()}


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
    if dot and section not in SECTIONS and section not in OLD_SECTIONS:
        hint = did_you_mean(section, SECTIONS)
        raise ConfigError(f"unknown section '{section}', allowed: {', '.join(SECTIONS)}{hint}")
    if section in SECTIONS and not name:
        raise ConfigError("expected section.key=value")
    return (section, name) if dot else find_setting(key)


def save_config(config: XTTSConfig, file: Path) -> None:
    """Writes every setting, so that the run does not depend on the defaults of this version."""
    settings = {"version": _VERSION, **config.as_dict()}
    text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    # For its owner alone: it names folders of this machine.
    write_whole_file(file, text)
