"""Configuration from its layers: defaults < presets < YAML file < command line."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from myxtts.config.builtin import find_config
from myxtts.config.config import SECTIONS, XTTSConfig
from myxtts.config.names import did_you_mean
from myxtts.errors import ConfigError

Layer = dict[str, dict[str, Any]]

_LARGEST_FILE_BYTES = 1 << 20
_DEEPEST_NESTING = 16


class _PlainLoader(yaml.SafeLoader):
    """YAML without what can make a small file large: aliases, and nesting without end."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases such as *name are not for settings")
        self._depth += 1
        if self._depth > _DEEPEST_NESTING:
            raise yaml.YAMLError("settings within settings within settings")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _parse_yaml(text: str) -> Any:
    """Whatever is wrong with the text is a yaml.YAMLError."""
    try:
        return yaml.load(text, _PlainLoader)
    # Dates and numbers that cannot be; they come through as Python's own errors.
    except (ValueError, OverflowError, RecursionError) as error:
        raise yaml.YAMLError(str(error)) from None


def load_config(
    file: Path | str | None = None,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    assignments: Iterable[str] = (),
    below: Layer | None = None,
) -> XTTSConfig:
    """The resolved configuration; `assignments` are `section.key=value` and win over all else.

    A `file` that is a string may also be the name of a built-in configuration, such as "demo".
    `below` is what is not given otherwise; its model is not mixed with a size that is.
    """
    layers: list[Layer] = []
    if file is not None:
        layers.append(read_yaml(file))
    layers.append({name: dict(values) for name, values in (overrides or {}).items()})
    layers.append(parse_assignments(assignments))
    if below is not None:
        has_size = "size" in merge(layers).get("model", {})
        layers.insert(0, {name: below[name] for name in below if name != "model" or not has_size})
    try:
        return XTTSConfig(**merge(layers))
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}" if file is not None else str(error)) from None


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
        if file.stat().st_size > _LARGEST_FILE_BYTES:
            raise ConfigError(
                f"{file}: {file.stat().st_size} bytes, expected settings of at most "
                f"{_LARGEST_FILE_BYTES}"
            )
        content = _parse_yaml(file.read_text(encoding="utf-8-sig"))
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
        section, dot, name = key.strip().partition(".")
        if not (separator and dot and name):
            raise ConfigError(f"--set {assignment}: expected section.key=value")
        if section not in SECTIONS:
            hint = did_you_mean(section, SECTIONS)
            raise ConfigError(
                f"--set {assignment}: unknown section '{section}', "
                f"allowed: {', '.join(SECTIONS)}{hint}"
            )
        try:
            value = _parse_yaml(text)
        except yaml.YAMLError:
            raise ConfigError(f"--set {assignment}: the value is not valid YAML") from None
        layer.setdefault(section, {})[name] = value
    return layer


def save_config(config: XTTSConfig, file: Path) -> None:
    """Writes every setting, so that a run does not depend on this version's defaults."""
    text = yaml.safe_dump(config.as_dict(), sort_keys=False, allow_unicode=True)
    with tempfile.NamedTemporaryFile(
        "w", dir=file.parent, suffix=".part", delete=False, encoding="utf-8"
    ) as part:
        part.write(text)
    os.replace(part.name, file)
