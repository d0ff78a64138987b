"""`myxtts export`: writes a run as a model for other runtimes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from myxtts.cli.console import say
from myxtts.errors import ConfigError, DataError

_FORMATS = ("saved-model", "onnx", "litert")
_PRECISIONS = ("float32", "float16", "int8")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "export",
        help="write a run as a SavedModel, ONNX or LiteRT model",
        description="Write a run as a model that runs without MyXTTS: token ids and a voice to "
        "samples, with a JSON of what it needs and an example.",
    )
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="folder of a trained run")
    parser.add_argument("--format", choices=_FORMATS, required=True, help="runtime to write for")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder to write; must be new"
    )
    parser.add_argument(
        "--precision",
        choices=_PRECISIONS,
        default="float32",
        help="of the weights, for litert: float16 is half as large, int8 a quarter "
        "(default: float32)",
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=10,
        metavar="N",
        help="sampling steps, fixed in the model (default: 10)",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    from myxtts.models.speech_options import SpeechOptionError, SpeechOptions
    from myxtts.runs.run_dir import RunDir

    try:
        speech = SpeechOptions(steps=options.steps)
    except SpeechOptionError as error:
        raise DataError(f"--{error.option}: {error.problem}") from None
    if options.precision != "float32" and options.format != "litert":
        raise ConfigError(f"--precision {options.precision}: goes with --format litert")
    RunDir(options.run_dir).require_folder()
    folder: Path = options.out
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists, expected a new or empty folder")
    from myxtts.devices.loading import load_tensorflow

    load_tensorflow()
    from myxtts.synthesis.export import export_model
    from myxtts.synthesis.tts import TTS

    tts = TTS(options.run_dir)
    export_model(tts, folder, options.format, precision=options.precision, options=speech)
    megabytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    say(f"{folder}: {options.format}, {megabytes:.1f} MB; try it with {folder / 'example.py'}")
    return 0
