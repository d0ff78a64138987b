"""`myxtts train`: trains a model on a corpus into a run folder."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import signal
from pathlib import Path
from typing import Any

from myxtts.cli.console import LiveRun, continue_without_streams, say, say_json
from myxtts.cli.parser import (
    add_config_options,
    add_corpus,
    add_json,
    add_language,
    add_val_data,
    configuration,
    flag_group,
)
from myxtts.config.config import (
    MODEL_SIZES,
    OPTIMIZATION_LEVELS,
    SECTIONS,
    TASKS,
    XTTSConfig,
    section_of,
)
from myxtts.config.loading import config_to_start_with, read_layer_for_resuming
from myxtts.errors import CheckpointError, ConfigError
from myxtts.runs.checkpoint import Checkpoint
from myxtts.runs.run_dir import RunDir, find_checkpoint, run_to_start_from
from myxtts.training.interruption import exit_code_of_signal
from myxtts.training.report import Observer, describe_plan, plan_as_json
from myxtts.training.train import DEMO_CORPUS, RUNS, plan_run, train

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
    run_dir, resumed, source = find_start(options)
    config = _given_configuration(options, resumed)
    if options.json and (not options.dry_run or config.data.train_data is None):
        raise ConfigError(
            "--json: needs --dry-run and a corpus: myxtts train CORPUS --dry-run --json"
        )
    start: dict[str, Any] = {"init_from": source, "init_partially": options.init_partially}
    if options.json:
        say_json(plan_as_json(plan_run(config, Observer(), resume=resumed, **start)))
        return 0
    continue_without_streams()
    with LiveRun(paths=_path_flags(config)) as live:
        if str(options.resume) == _AUTO:
            new = "no saved run found, starting a new one"
            say(f"--resume auto: {f'resuming {run_dir}' if resumed else new}")
        if options.dry_run:
            plan = plan_run(config, live, resume=resumed, **start)
            schedule = plan.corpus.train.schedule
            for line in describe_plan(plan):
                say(line)
            say(f"Length: {schedule.planned_length(plan.config.training)}")
            return 0
        report = train(
            config,
            run_dir,
            resume=resumed,
            allow_changed_corpus=options.allow_changed_corpus,
            observer=live,
            **start,
        )
    name = report.interrupted_by
    return exit_code_of_signal(signal.Signals[name]) if name else 0


def configuration_of_run(
    options: argparse.Namespace, resumed: Checkpoint | None, source: Checkpoint | None
) -> XTTSConfig:
    """Return the configuration that a run would have.

    A resumed run keeps its saved settings unless flags change them. A run initialized from
    another one defaults to its model and its way of training.
    """
    config = _given_configuration(options, resumed)
    if source is None:
        return config
    return config_to_start_with(source.config(), config, partially=options.init_partially)


def _given_configuration(options: argparse.Namespace, resumed: Checkpoint | None) -> XTTSConfig:
    """Every flag that is not about the run itself is a setting."""
    settings = {
        _SETTING_OF_FLAG.get(flag, flag): value
        for flag, value in vars(options).items()
        if flag not in _FLAGS_OF_THE_RUN
    }
    if "epochs" in settings and "max_steps" not in settings:
        # Otherwise max_steps in the file would override the flag.
        settings["max_steps"] = None
    base = read_layer_for_resuming(resumed.config_file) if resumed else None
    config = configuration(options, settings, base, flag_names=_FLAG_NAMES)
    if resumed and options.config is None:
        _require_paths(resumed, config)
    return config


def _require_paths(resumed: Checkpoint, config: XTTSConfig) -> None:
    """A run folder must not choose what is read here, so these flags are given again."""
    recorded = resumed.recorded_config()
    if any(
        before and not now for before, now in zip(_paths(recorded), _paths(config), strict=True)
    ):
        run = shlex.quote(str(RunDir.around(resumed.folder)))
        raise ConfigError(
            "--resume: paths are not taken from the run; give them again, if they are right: "
            f"myxtts train {_path_flags(recorded)}--resume {run}"
        )


def _paths(config: XTTSConfig) -> tuple[str | None, str | None, str | None]:
    corpus = config.data.train_data
    return (
        None if corpus == str(DEMO_CORPUS) else corpus,
        config.data.val_data,
        config.vocoder.mels_from,
    )


def _path_flags(config: XTTSConfig) -> str:
    """Write the paths as arguments of `train`, each followed by a space."""
    flags = zip(("", "--val-data ", "--mels-from "), _paths(config), strict=True)
    return "".join(f"{flag}{shlex.quote(path)} " for flag, path in flags if path)


def find_start(
    options: argparse.Namespace,
) -> tuple[Path | None, Checkpoint | None, Checkpoint | None]:
    """Return the run folder, the checkpoint to resume and the one to initialize from, if any."""
    resumed = _run_to_resume(options)
    if resumed is not None:
        return resumed, find_checkpoint(resumed), None
    if options.init_from is not None:
        folder = run_to_start_from(options.init_from)
        return options.run_dir, None, find_checkpoint(folder, for_synthesis=True)
    if options.init_partially:
        raise CheckpointError("--init-partially: needs --init-from RUN")
    return options.run_dir, None, None


def _run_to_resume(options: argparse.Namespace) -> Path | None:
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
    if run_dir is None:
        newest = RunDir.newest_in(RUNS)
        return newest.path if newest else None
    return run_dir if RunDir(run_dir).checkpoint_folders() else None


def add_training_flags(
    parser: argparse.ArgumentParser,
    *,
    json_help: str = "with --dry-run: print the plan as one JSON object",
    without_corpus: str = "generate the demo corpus",
) -> None:
    """For a parser whose absent flags are absent from the result: each setting has at most one."""
    add_corpus(parser, f"training corpus (default: {without_corpus})")
    add_val_data(parser)
    add_language(parser)
    add_config_options(parser)
    _add_run_flags(flag_group(parser, "run"))
    _add_shape_flags(flag_group(parser, "shapes"))
    _add_model_flags(flag_group(parser, "model and optimisation"))
    _add_length_flags(flag_group(parser, "length and saving"))
    _add_device_flags(flag_group(parser, "devices"))
    add_json(parser, json_help)


def _default(setting: str) -> Any:
    fields = dataclasses.fields(SECTIONS[section_of(setting)])  # type: ignore[arg-type]
    return next(field.default for field in fields if field.name == setting)


def _add_run_flags(group: Any) -> None:
    group.add_argument(
        "--run-dir",
        type=Path,
        default=None,
        metavar="DIR",
        help="folder for checkpoints, logs and samples (default: a new folder in runs/)",
    )
    group.add_argument(
        "--resume",
        type=Path,
        nargs="?",
        const=True,
        default=None,
        metavar="DIR",
        help="resume the run in DIR or --run-dir; auto resumes the newest run, if any "
        "(default: start a new run)",
    )
    group.add_argument(
        "--init-from",
        type=Path,
        default=None,
        metavar="RUN",
        help="initialise from another run's EMA weights, or those of the included base model "
        "(base) or vocoder (vocoder), which must fit the model; its model and audio settings "
        "become the defaults "
        "(default: train from scratch)",
    )
    group.add_argument(
        "--init-partially",
        action="store_true",
        default=False,
        help="with --init-from: load the weights that fit, initialise the rest from scratch",
    )
    group.add_argument(
        "--allow-changed-corpus",
        action="store_true",
        default=False,
        help="with --resume: go on although clips were added, removed, changed or reordered",
    )
    group.add_argument(
        "--dry-run", action="store_true", default=False, help="show the plan without training"
    )


def _add_shape_flags(group: Any) -> None:
    group.add_argument(
        "--batch-size",
        type=int,
        metavar="N",
        help=f"clips that are computed at once (default: {_default('batch_size')})",
    )
    group.add_argument(
        "--enable-static-shapes",
        "--pad-to-fixed-length",
        dest="pad_to_fixed_length",
        action="store_true",
        help="pad every batch to the same shape (default: a few shapes)",
    )
    group.add_argument(
        "--max-text-length",
        type=int,
        metavar="N",
        help=f"leave out clips with more tokens than this (default: {_default('max_text_length')})",
    )
    group.add_argument(
        "--max-mel-frames",
        type=int,
        metavar="N",
        help="leave out clips with more mel frames than this (default: derived from the data)",
    )
    group.add_argument(
        "--buffer-size",
        type=int,
        metavar="N",
        help=f"batches to prefetch (default: {_default('buffer_size')})",
    )


def _add_model_flags(group: Any) -> None:
    group.add_argument(
        "--task",
        choices=TASKS,
        help="train the model that speaks, or the vocoder that turns its mels into waveforms "
        f"(default: {_default('task')})",
    )
    group.add_argument(
        "--mels-from",
        metavar="RUN",
        help="with --task vocoder: train on the mels that a trained run, or base, predicts for the "
        "clips (default: on those of the recordings)",
    )
    group.add_argument(
        "--model-size",
        choices=MODEL_SIZES,
        help=f"preset for the model's dimensions (default: {_default('size')})",
    )
    group.add_argument(
        "--optimization-level",
        choices=OPTIMIZATION_LEVELS,
        help="preset for optimisation and augmentation settings "
        f"(default: {_default('optimization_level')})",
    )
    group.add_argument(
        "--freeze",
        metavar="NAMES",
        help='parts of the model to freeze, such as "voice_encoder, decoder.block_*"',
    )
    group.add_argument(
        "--gradient-accumulation-steps",
        type=int,
        metavar="N",
        help="batches whose gradients make one step, to train like a larger batch "
        f"(default: {_default('gradient_accumulation_steps')})",
    )
    group.add_argument(
        "--xla",
        action=argparse.BooleanOptionalAction,
        help="compile the training step with XLA (default: on GPUs only)",
    )


def _add_length_flags(group: Any) -> None:
    group.add_argument(
        "--max-steps",
        type=int,
        metavar="N",
        help="length of the run in optimizer steps (default: derived from the corpus)",
    )
    group.add_argument(
        "--epochs",
        type=int,
        metavar="N",
        help="length of the run in epochs (default: by --max-steps)",
    )
    group.add_argument(
        "--save-every",
        type=int,
        metavar="N",
        help=f"steps between checkpoints (default: {_default('save_every')})",
    )
    group.add_argument(
        "--evaluate-every",
        type=int,
        metavar="N",
        help=f"steps between evaluations (default: {_default('evaluate_every')})",
    )
    group.add_argument(
        "--seed", type=int, metavar="N", help=f"random seed (default: {_default('seed')})"
    )


def _add_device_flags(group: Any) -> None:
    group.add_argument(
        "--multi-gpu", action="store_true", help="mirrored training on all visible GPUs"
    )
    group.add_argument(
        "--strict-devices",
        action="store_true",
        help="stop if the requested devices cannot be used, instead of falling back",
    )
    group.add_argument(
        "--visible-gpus", metavar="IDS", help="GPUs to use, such as 0,1 (default: all)"
    )
    group.add_argument(
        "--data-gpu", type=int, metavar="ID", help="GPU that computes features; needs --model-gpu"
    )
    group.add_argument(
        "--model-gpu",
        metavar="IDS",
        help="GPU or GPUs that train, such as 1 or 1,2 (default: the first)",
    )
    group.add_argument(
        "--model-start-delay",
        type=float,
        metavar="SECONDS",
        help="delay between starting the data GPU and the model "
        f"(default: {_default('model_start_delay')})",
    )
    group.add_argument(
        "--enable-memory-isolation",
        action="store_true",
        help="give the data GPU and the model GPU a fixed memory limit each",
    )
    for role in ("data", "model"):
        group.add_argument(
            f"--{role}-gpu-memory",
            type=int,
            metavar="MB",
            help=f"memory limit of the {role} GPU (default: by the size of the card)",
        )
    group.add_argument(
        "--virtual-devices",
        type=int,
        metavar="N",
        help="logical CPU devices that stand in for GPUs "
        f"(default: {_default('virtual_devices')}, use the real GPUs)",
    )
