"""Options shared by several commands."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from myxtts.config.builtin import builtin_names
from myxtts.config.config import XTTSConfig, section_of


def add_config_options(parser: Any) -> None:
    parser.add_argument(
        "--config",
        default=None,
        metavar="NAME_OR_FILE",
        help="YAML file with settings, or a built-in configuration: "
        f"{', '.join(builtin_names())} (default: the defaults of the settings)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="override a setting, such as training.learning_rate=1e-3 or learning_rate=1e-3; may "
        "be repeated",
    )


def configuration(
    options: argparse.Namespace,
    settings: Mapping[str, Any],
    base: Path | None = None,
    below: dict[str, dict[str, Any]] | None = None,
    flag_names: Mapping[str, str] | None = None,
) -> XTTSConfig:
    """Lowest first: `below`, --config or else a run's `base`, `settings` by name, --set.

    `flag_names` has the flags of the settings that are called otherwise.
    """
    from myxtts.config.loading import load_config

    overrides: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        overrides.setdefault(section_of(name), {})[name] = value
    return load_config(
        options.config or base,
        overrides,
        options.set,
        below,
        is_saved_run=options.config is None,
        flag_names=flag_names,
    )


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings whose flags were given."""
    return {name: value for name, value in settings.items() if value is not None}
