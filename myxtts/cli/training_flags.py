"""The flags of `myxtts train`: of the run, and of settings that users change often."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from myxtts.cli.help_text import flag_group
from myxtts.cli.options import (
    add_config_options,
    add_corpus,
    add_json,
    add_language,
    add_val_data,
)
from myxtts.config.config import MODEL_SIZES, OPTIMIZATION_LEVELS, SECTIONS, TASKS, section_of


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
