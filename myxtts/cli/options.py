"""Options shared by several commands."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from myxtts.cli.help_text import flag_group
from myxtts.cli.parser import CORPUS_ARGUMENT, RUN_ARGUMENT
from myxtts.config.builtin import builtin_names
from myxtts.config.config import XTTSConfig, section_of
from myxtts.errors import CheckpointError, ConfigError
from myxtts.runs.base import run_or_base


def add_corpus(parser: argparse.ArgumentParser, what: str) -> None:
    """The corpus as an argument, and as --train-data."""
    parser.add_argument(CORPUS_ARGUMENT, nargs="?", metavar="CORPUS", help=what)
    flag_group(parser, "data").add_argument(
        "--train-data", metavar="CORPUS", help="the same as the argument (default: none)"
    )


def required_corpus(options: argparse.Namespace) -> Path:
    if options.train_data is None:
        raise ConfigError(f"which corpus? Use myxtts {options.command} CORPUS")
    return Path(options.train_data)


def add_run(parser: argparse.ArgumentParser, what: str = "folder of a trained run") -> None:
    """The run as an argument, and as --checkpoint."""
    parser.add_argument(RUN_ARGUMENT, nargs="?", type=Path, metavar="RUN", help=what)
    parser.add_argument(
        "--checkpoint", type=Path, metavar="RUN", help="the same as the argument (default: none)"
    )


def required_run(options: argparse.Namespace) -> Path:
    if options.checkpoint is None:
        raise CheckpointError(f"which run? Use myxtts {options.command} RUN")
    return run_or_base(options.checkpoint)


def add_val_data(parser: argparse.ArgumentParser) -> None:
    flag_group(parser, "data").add_argument(
        "--val-data",
        metavar="DIR",
        help="validation corpus (default: held out from the training corpus)",
    )


def add_language(
    parser: argparse.ArgumentParser, what: str = "language of rows that name none"
) -> None:
    flag_group(parser, "data").add_argument(
        "--language",
        dest="default_language",
        metavar="TAG",
        help=f"{what}, such as en or fa (default: text.default_language)",
    )


def add_config_options(parser: argparse.ArgumentParser) -> None:
    group = flag_group(parser, "settings")
    group.add_argument(
        "--config",
        default=None,
        metavar="NAME_OR_FILE",
        help="YAML file with settings, or a built-in configuration: "
        f"{', '.join(builtin_names())} (default: the defaults of the settings)",
    )
    group.add_argument(
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
    flag_names: Mapping[str, str] | None = None,
) -> XTTSConfig:
    """Lowest first: --config or else a run's `base`, `settings` by name, --set.

    `flag_names` has the flags of the settings that are called otherwise.
    """
    from myxtts.config.loading import load_config

    if settings.get("default_language") is not None:
        from myxtts.text.languages import parse_tag

        language = parse_tag(settings["default_language"], "--language")
        settings = {**settings, "default_language": language}
    overrides: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        overrides.setdefault(section_of(name), {})[name] = value
    return load_config(
        options.config or base,
        overrides,
        options.set,
        flag_names=flag_names,
    )


def add_message_flags(parser: argparse.ArgumentParser, default: bool | str = False) -> None:
    """Every command ends with these."""
    group = flag_group(parser, "messages")
    group.add_argument(
        "--verbose", action="store_true", default=default, help="show details of what is done"
    )
    group.add_argument(
        "--traceback", action="store_true", default=default, help="print the traceback of an error"
    )


def add_workers(
    parser: argparse.ArgumentParser, what: str = "processes to use (default: one per core)"
) -> None:
    flag_group(parser, "devices").add_argument("--workers", type=int, metavar="N", help=what)


def add_json(parser: argparse.ArgumentParser, what: str = "print one JSON object") -> None:
    # With a default: some parsers leave out what is not given.
    flag_group(parser, "output").add_argument(
        "--json", action="store_true", default=False, help=what
    )


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings whose flags were given."""
    return {name: value for name, value in settings.items() if value is not None}
