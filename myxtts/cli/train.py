"""`myxtts train`: trains a model on a corpus into a run folder."""

from __future__ import annotations

import argparse
import shlex
import signal
from pathlib import Path
from typing import Any

from myxtts.cli.console import LiveRun, continue_without_streams, say, say_json
from myxtts.cli.parser import (
    FLAG_OF_SETTING,
    add_config_options,
    add_corpus,
    add_json,
    add_language,
    add_val_data,
    configuration,
    flag_group,
)
from myxtts.config.config import SECTIONS, XTTSConfig, section_of
from myxtts.config.loading import (
    config_to_start_with,
    load_config_of_run,
    read_layer_for_resuming,
)
from myxtts.errors import CheckpointError, ConfigError
from myxtts.runs.checkpoint import CONFIG, Checkpoint
from myxtts.runs.run_dir import RunDir, find_checkpoint
from myxtts.training.interruption import exit_code_of_signal
from myxtts.training.report import Observer, describe_plan, plan_as_json
from myxtts.training.train import DEMO_CORPUS, RUNS, find_start, plan_run, train

_AUTO = "auto"


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "train",
        help="train a model on a corpus",
        description="Train a model on a corpus, starting from the included base model. Settings "
        "without a flag come from --config, or else the base model or their defaults.",
    )
    add_training_flags(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    run_dir, resumed = find_run(options)
    config = _given_configuration(options, resumed)
    if options.json and (not options.dry_run or config.data.train_data is None):
        raise ConfigError(
            "--json: needs --dry-run and a corpus: myxtts train CORPUS --dry-run --json"
        )
    start = {name: vars(options)[name] for name in ("init_from", "from_scratch", "init_partially")}
    if options.resume is not None and resumed is None and str(options.resume) != _AUTO:
        assert run_dir is not None
        start["from_scratch"] = RunDir(run_dir).started_from is None  # it starts over
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


def configuration_of_run(options: argparse.Namespace) -> XTTSConfig:
    """Return the configuration that a run would have.

    A resumed run keeps its saved settings unless flags change them. A run initialized from another
    one defaults to that run's model and training settings.
    """
    _, resumed = find_run(options)
    config = _given_configuration(options, resumed)
    if resumed is not None:
        return config
    start, _ = find_start(config, options.init_from, from_scratch=options.from_scratch)
    if start is None:
        return config
    return config_to_start_with(start.config(), config, partially=options.init_partially)


def _given_configuration(options: argparse.Namespace, resumed: Checkpoint | None) -> XTTSConfig:
    # Otherwise max_steps in the file would override --epochs.
    by_epochs = options.epochs is not None and options.max_steps is None
    changes = {"max_steps": None} if by_epochs else {}
    folder = resumed.folder if resumed else _run_to_resume(options)
    base = read_layer_for_resuming(folder / CONFIG) if folder else None
    config = configuration(options, changes, base)
    if folder and options.config is None:
        _require_paths(folder, config)
    return config


def _require_paths(folder: Path, config: XTTSConfig) -> None:
    """Require flags for paths outside the run: a run folder must not choose what is read here."""
    recorded = load_config_of_run(folder / CONFIG)
    if any(
        before and not now for before, now in zip(_paths(recorded), _paths(config), strict=True)
    ):
        run = shlex.quote(str(RunDir.around(folder)))
        raise ConfigError(
            "--resume: paths are not taken from the run; pass them again if they are correct: "
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


def find_run(options: argparse.Namespace) -> tuple[Path | None, Checkpoint | None]:
    """Return the run folder, and the checkpoint to resume, if any."""
    resumed = _run_to_resume(options)
    if resumed is not None:
        starts_over = RunDir(resumed).can_start_over
        return resumed, None if starts_over else find_checkpoint(resumed)
    if options.init_partially and options.init_from is None:
        raise CheckpointError("--init-partially: needs --init-from RUN")
    return options.run_dir, None


def _run_to_resume(options: argparse.Namespace) -> Path | None:
    if options.resume is None:
        return None
    if str(options.resume) == _AUTO:
        return _newest_run(options.run_dir)
    folder: Path | None = options.run_dir if options.resume is True else options.resume
    if folder is None:
        raise CheckpointError("--resume: no run given; use --resume DIR or --run-dir DIR")
    if options.run_dir not in (None, folder):
        raise CheckpointError(f"--resume {folder}: contradicts --run-dir {options.run_dir}")
    if options.init_from is not None or options.from_scratch:
        flag = "--from-scratch" if options.from_scratch else "--init-from"
        raise CheckpointError(f"--resume: cannot be combined with {flag}")
    run = RunDir(folder)
    if not run.checkpoint_folders() and not run.can_start_over:
        raise CheckpointError(
            f"{folder}: contains no checkpoint to resume from; start the run again with --run-dir"
        )
    return folder


def _newest_run(run_dir: Path | None) -> Path | None:
    """Return --run-dir, or else the newest run in runs/, if it has a checkpoint."""
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
    add_corpus(parser, f"training corpus (default: {without_corpus})")
    add_val_data(parser)
    add_language(parser)
    add_config_options(parser)
    _add_run_flags(flag_group(parser, "run"))
    for title, flags in _SETTINGS_WITH_FLAGS.items():
        for flag in flags:
            _add_setting(flag_group(parser, title), *flag)
    add_json(parser, json_help)


def _add_run_flags(group: Any) -> None:
    group.add_argument(
        "--run-dir",
        type=Path,
        metavar="DIR",
        help="folder for checkpoints, logs and samples (default: a new folder in runs/)",
    )
    group.add_argument(
        "--resume",
        type=Path,
        nargs="?",
        const=True,
        metavar="DIR",
        help="resume the run in DIR or --run-dir; auto resumes the newest run, if any "
        "(default: start a new run)",
    )
    group.add_argument(
        "--init-from",
        type=Path,
        metavar="RUN",
        help="initialize from the EMA weights of another run or of an included model (base, "
        "vocoder); its model and audio settings become the defaults (default: base, unless "
        "--model-size or another setting of the model is given that differs from it)",
    )
    group.add_argument(
        "--from-scratch", action="store_true", help="start from random weights, not the base model"
    )
    group.add_argument(
        "--init-partially",
        action="store_true",
        help="with --init-from: load the weights that fit, initialize the rest from scratch",
    )
    group.add_argument(
        "--allow-changed-corpus",
        action="store_true",
        help="resume even if the corpus has changed",
    )
    group.add_argument("--dry-run", action="store_true", help="show the plan without training")


# Flags, placeholder and help text of each setting that has a flag, by group.
_SETTINGS_WITH_FLAGS = {
    "shapes": (
        ("--batch-size", "N", "clips per batch across all replicas"),
        ("--enable-static-shapes --pad-to-fixed-length", "", "pad every batch to the same shape"),
        ("--max-text-length", "N", "leave out clips with more tokens than this"),
        (
            "--max-mel-frames",
            "N",
            "leave out clips with more mel frames than this (default: derived from the data)",
        ),
        ("--buffer-size", "N", "batches to prefetch"),
    ),
    "model and optimization": (
        ("--task", "", "train the acoustic model, or a vocoder"),
        (
            "--mels-from",
            "RUN",
            "with --task vocoder: train on mels predicted by a trained run or base (default: mels "
            "of the recordings)",
        ),
        ("--model-size", "", "preset for the model's dimensions"),
        ("--optimization-level", "", "preset for optimization and augmentation settings"),
        (
            "--freeze",
            "NAMES",
            'parts of the model to freeze, such as "voice_encoder, decoder.block_*"',
        ),
        ("--gradient-accumulation-steps", "N", "batches per optimizer step"),
        ("--xla", "", "compile the training step with XLA (default: on GPUs only)"),
    ),
    "length and saving": (
        ("--max-steps", "N", "length in optimizer steps (default: derived from the corpus)"),
        ("--epochs", "N", "length in epochs (default: by --max-steps)"),
        ("--save-every", "N", "steps between checkpoints"),
        ("--evaluate-every", "N", "steps between evaluations"),
        ("--seed", "N", "random seed"),
    ),
    "devices": (
        ("--multi-gpu", "", "mirrored training on all visible GPUs"),
        ("--strict-devices", "", "stop if requested devices cannot be used; no fallback"),
        ("--visible-gpus", "IDS", "GPUs to use, such as 0,1 (default: all)"),
        ("--data-gpu", "ID", "GPU that computes features; needs --model-gpu"),
        ("--model-gpu", "IDS", "GPU or GPUs that train, such as 1 or 1,2 (default: the first)"),
        ("--model-start-delay", "SECONDS", "delay between starting the data GPU and the model"),
        (
            "--enable-memory-isolation",
            "",
            "give the data GPU and the model GPU a fixed memory limit each",
        ),
        ("--data-gpu-memory", "MB", "limit of the data GPU (default: by the size of the card)"),
        ("--model-gpu-memory", "MB", "limit of the model GPU (default: by the size of the card)"),
        ("--virtual-devices", "N", "logical CPU devices that stand in for GPUs"),
    ),
}


def _add_setting(group: Any, flags: str, metavar: str, what: str) -> None:
    """Add the flag of a setting, with the setting's type, choices and default."""
    *_, flag = flags.split()
    own = {its_flag: setting for setting, its_flag in FLAG_OF_SETTING.items()}
    name = own.get(flag, flag.removeprefix("--").replace("-", "_"))
    field = vars(SECTIONS[section_of(name)])["__dataclass_fields__"][name]
    kind = str(field.type).partition(" ")[0]
    choices = field.metadata["choices"]
    options: dict[str, Any] = {"type": {"int": int, "float": float, "str": str}.get(kind)}
    if flag == "--xla":
        options = {"action": argparse.BooleanOptionalAction}
    elif kind == "bool":
        options = {"action": "store_true"}
    else:
        options |= {"choices": choices} if choices else {"metavar": metavar}
    if not isinstance(field.default, bool | None):
        what += f" (default: {field.default})"
    group.add_argument(*flags.split(), dest=name, default=None, help=what, **options)
