"""`myxtts tune`: measures on this machine which settings train fastest."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.cli.console import Progress, clock_time, say_json
from myxtts.cli.parser import (
    add_config_options,
    add_corpus,
    add_json,
    add_language,
    configuration,
    flag_group,
)
from myxtts.devices.placement import find_cluster
from myxtts.errors import ConfigError

if TYPE_CHECKING:
    from myxtts.config.schema import Layer
    from myxtts.training.tune import Recommendation, Tuning

_DEFAULT_MINUTES = 3.0
_MIN_MINUTES, _MAX_MINUTES = 0.05, 600.0


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "tune",
        help="measure which settings train fastest on this machine",
        description="Benchmark the training step on your corpus for a few minutes, without "
        "training, and recommend batch size, precision, XLA, workers and buffer size for this "
        "machine.",
    )
    add_corpus(parser, "training corpus (default: from --config)")
    add_language(parser)
    add_config_options(parser)
    parser.add_argument(
        "--minutes",
        type=float,
        default=_DEFAULT_MINUTES,
        metavar="M",
        help="time limit in minutes; a measurement in progress is finished "
        f"(default: {_DEFAULT_MINUTES:g})",
    )
    flag_group(parser, "output").add_argument(
        "--out",
        type=Path,
        default=Path("myxtts-tuned.yaml"),
        metavar="FILE",
        help="file to write, for myxtts train --config (default: %(default)s)",
    )
    flag_group(parser, "devices").add_argument(
        "--virtual-devices",
        type=int,
        metavar="N",
        help="logical CPU devices that stand in for GPUs (default: 0, use the real GPUs)",
    )
    add_json(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    config = configuration(options)
    if config.data.train_data is None:
        raise ConfigError("no corpus given; use myxtts tune CORPUS")
    if config.training.task != "acoustic":
        raise ConfigError(
            "training.task: found vocoder, expected acoustic; for a vocoder set data.batch_size"
        )
    if not _MIN_MINUTES <= options.minutes <= _MAX_MINUTES:
        raise ConfigError(
            f"--minutes: found {options.minutes:g}, allowed: {_MIN_MINUTES:g} to {_MAX_MINUTES:g}"
        )
    _require_new_file(options.out)
    from myxtts.training.report import Observer
    from myxtts.training.train import plan_run

    if find_cluster() is not None:
        raise ConfigError("tune: measures a single machine; start it outside the cluster")
    with Progress(quiet=options.json) as progress:

        class Preparation(Observer):
            def on_phase(self, message: str) -> None:
                progress.begin(message)

            def on_prepare(self, part: str, done: int, total: int) -> None:
                progress.begin(f"preparing {part} clips", "clip")
                progress.count(done, total)

        def on_measurement(what: str, gone_seconds: float, seconds: float) -> None:
            progress.begin(what)
            left = clock_time(max(0.0, seconds - gone_seconds))
            progress.describe(f"{what}, at most {left} left,")

        plan = plan_run(config, Preparation())
        from myxtts.training.tune import Tuner

        tuner = Tuner(
            plan.config,
            plan.corpus,
            plan.devices.strategy,
            data_device=plan.devices.data_device,
            seconds=60 * options.minutes,
            on_progress=on_measurement,
        )
        tuning = tuner.run()
    options.out.write_text(
        _yaml(tuning.recommendations, _given_settings(options), options), encoding="utf-8"
    )
    command = shlex.join(["myxtts", "train", config.data.train_data, "--config", str(options.out)])
    if options.json:
        say_json(_as_dict(tuning, options.out, command))
    else:
        print("\n".join([*_describe(tuning), "", f"Written: {options.out}", command]))
    return 0


def _require_new_file(file: Path) -> None:
    if file.exists():
        raise ConfigError(f"{file}: already exists; remove it or choose another file with --out")
    if not file.parent.is_dir():
        raise ConfigError(f"{file}: cannot be written (no folder {file.parent})")


def _given_settings(options: argparse.Namespace) -> Layer:
    """Return the settings from --config and --set, which the written file repeats."""
    from myxtts.config.config import resolve_aliases
    from myxtts.config.loading import merge, parse_assignments, read_yaml

    layers = [read_yaml(options.config)] if options.config is not None else []
    layers.append(parse_assignments(options.set))
    return merge(map(resolve_aliases, layers))


def _as_dict(tuning: Tuning, file: Path, command: str) -> dict[str, Any]:
    return {
        "recommendations": [
            {
                "setting": item.setting,
                "now": item.now,
                "recommended": item.recommended,
                "worth": item.worth,
            }
            for item in tuning.recommendations
        ],
        "skipped": tuning.skipped,
        "measurements": tuning.measurements,
        "file": str(file),
        "command": command,
    }


def _describe(tuning: Tuning) -> list[str]:
    rows = [("setting", "now", "recommended", "worth")]
    rows += [
        (item.setting, _shown(item.now), _shown(item.recommended), item.worth)
        for item in tuning.recommendations
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(f"{text:<{width}}" for text, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
    return lines + [f"Not measured: {what}" for what in tuning.skipped]


def _shown(value: Any) -> str:
    """Format a value as in YAML."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def _yaml(
    recommendations: list[Recommendation], given_settings: Layer, options: argparse.Namespace
) -> str:
    """Merge the recommended changes, each with its measured gain, into the given settings."""
    import yaml

    changes = {item.setting: item for item in recommendations if item.changes}
    settings = {section: dict(values) for section, values in given_settings.items()}
    for item in changes.values():
        section, _, name = item.setting.partition(".")
        settings.setdefault(section, {})[name] = item.recommended
    lines = [
        "# Written by myxtts tune: measured on this machine with "
        f"{options.train_data or 'this corpus'}.",
    ]
    if not changes:
        lines.append("# No changes: these settings are already the fastest.")
    for section, values in settings.items():
        lines += ["", f"{section}:"]
        for name, value in values.items():
            change = changes.get(f"{section}.{name}")
            if change is not None:
                lines.append(f"  # was {_shown(change.now)}; {change.worth}")
            text = yaml.safe_dump({name: value}, allow_unicode=True, sort_keys=False)
            lines += [f"  {line}" for line in text.splitlines()]
    return "\n".join(lines) + "\n"
