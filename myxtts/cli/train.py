"""`myxtts train`: trains a model on a corpus into a run folder."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.cli.console import continue_without_streams, say, say_json
from myxtts.cli.live_run import LiveRun
from myxtts.cli.options import configuration
from myxtts.cli.training_flags import add_training_flags
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError, ConfigError
from myxtts.training.interruption import exit_code_of_signal

if TYPE_CHECKING:
    from myxtts.training.opening import Start

_AUTO = "auto"

# Flags whose name differs from the setting that they set.
_SETTING_OF_FLAG = {
    "model_size": "size",
    "data_gpu_memory": "data_gpu_memory_mb",
    "model_gpu_memory": "model_gpu_memory_mb",
}
_FLAG_NAMES = {setting: f"--{flag.replace('_', '-')}" for flag, setting in _SETTING_OF_FLAG.items()}
_FLAGS_OF_THE_RUN = {
    *("command", "run", "verbose", "traceback"),
    *("config", "set", "run_dir", "resume", "dry_run", "json"),
    *("init_from", "init_partially", "allow_changed_corpus"),
}


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "train",
        help="train a model on a corpus",
        description="Train a model on a corpus. Settings without a flag come from --config, or "
        "else their defaults.",
        argument_default=argparse.SUPPRESS,
    )
    add_training_flags(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    run_dir, start = find_start(options)
    config = configuration_of_run(options, start)
    if options.json:
        return _print_plan(config, start, options.dry_run)
    continue_without_streams()
    with LiveRun() as live:
        if str(options.resume) == _AUTO:
            new = "no saved run found, starting a new one"
            say(f"--resume auto: {f'resuming {run_dir}' if start.resumed else new}")
        if options.dry_run:
            from myxtts.training.describing import describe_length
            from myxtts.training.opening import open_run

            with open_run(config, start, live) as opened:
                say(describe_length(opened))
                return 0
        from myxtts.runs.run_dir import RunDir
        from myxtts.training.run import train_from

        report = train_from(start, config, RunDir(run_dir) if run_dir else None, live)
    name = report.interrupted_by
    return exit_code_of_signal(signal.Signals[name]) if name else 0


def _print_plan(config: XTTSConfig, start: Start, dry_run: bool) -> int:
    if not dry_run or config.data.train_data is None:
        raise ConfigError(
            "--json: needs --dry-run and a corpus: myxtts train CORPUS --dry-run --json"
        )
    from myxtts.training.describing import plan_of
    from myxtts.training.opening import open_run
    from myxtts.training.watching.observer import Observer

    with open_run(config, start, Observer()) as opened:
        say_json(plan_of(opened))
    return 0


def configuration_of_run(options: argparse.Namespace, start: Start) -> XTTSConfig:
    """Every flag that is not about the run itself is a setting.

    A resumed run keeps its saved settings unless flags change them. A run initialised from
    another one defaults to its model and its way of training.
    """
    settings = {
        _SETTING_OF_FLAG.get(flag, flag): value
        for flag, value in vars(options).items()
        if flag not in _FLAGS_OF_THE_RUN
    }
    if "epochs" in settings and "max_steps" not in settings:
        # Otherwise max_steps in the file would override the flag.
        settings["max_steps"] = None
    base = start.resumed.config_file if start.resumed else None
    return start.adapt(configuration(options, settings, base, flag_names=_FLAG_NAMES))


def find_start(options: argparse.Namespace) -> tuple[Path | None, Start]:
    """The run folder, if one is given or found, and what the run starts from."""
    from myxtts.runs.run_dir import find_checkpoint
    from myxtts.training.opening import Start

    resumed = _run_to_resume(options)
    if resumed is not None:
        return resumed, Start(
            resumed=find_checkpoint(resumed), allow_changed_corpus=options.allow_changed_corpus
        )
    if options.init_from is not None:
        start = Start.from_run(options.init_from, partially=options.init_partially)
        return options.run_dir, start
    if options.init_partially:
        raise CheckpointError("--init-partially: needs --init-from RUN")
    return options.run_dir, Start()


def _run_to_resume(options: argparse.Namespace) -> Path | None:
    from myxtts.runs.run_dir import RunDir

    if options.resume is None:
        return None
    if str(options.resume) == _AUTO:
        return _newest_run(options.run_dir)
    folder: Path | None = options.run_dir if options.resume is True else options.resume
    if folder is None:
        raise CheckpointError("--resume: which run? Use --resume DIR or --run-dir DIR")
    if options.run_dir not in (None, folder):
        raise CheckpointError(f"--resume {folder}: contradicts --run-dir {options.run_dir}")
    if options.init_from is not None:
        raise CheckpointError("--resume: cannot be combined with --init-from")
    if not RunDir(folder).checkpoints.is_dir():
        raise CheckpointError(f"{folder}: contains no run to resume; expected checkpoints/ in it")
    return folder


def _newest_run(run_dir: Path | None) -> Path | None:
    """--run-dir, or else the newest run in runs/, if it has a checkpoint."""
    from myxtts.runs.run_dir import RunDir
    from myxtts.training.run import RUNS

    if run_dir is None:
        newest = RunDir.newest_in(RUNS)
        return newest.path if newest else None
    return run_dir if RunDir(run_dir).checkpoint_folders() else None
