"""`myxtts export`: writes a run as a model for other runtimes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from myxtts.cli.console import Progress, say
from myxtts.cli.parser import add_run, flag_group, required_run, speech_options
from myxtts.devices.startup import load_tensorflow
from myxtts.models.speech_options import SpeechOptions

_FORMATS = ("saved-model", "onnx", "litert", "litert-float16")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "export",
        help="write a run as a SavedModel, ONNX or LiteRT model",
        description="Write a run as a model that runs without MyXTTS: token ids and a voice to "
        "samples, with its metadata as JSON and an example.",
    )
    add_run(parser)
    parser.add_argument(
        "--language",
        metavar="TAG",
        help="language of texts without one, in model.json (default: the run's "
        "text.default_language)",
    )
    flag_group(parser, "speech").add_argument(
        "--steps",
        type=int,
        default=SpeechOptions.steps,
        metavar="N",
        help="sampling steps, fixed in the model",
    )
    output = flag_group(parser, "output")
    output.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder to write; must be new"
    )
    output.add_argument("--format", choices=_FORMATS, required=True, help="runtime to write for")
    return parser


def run(options: argparse.Namespace) -> int:
    speech = speech_options(options)
    run_dir = required_run(options)
    folder: Path = options.out
    with Progress() as progress:
        progress.begin("loading TensorFlow", is_brief=True)
        load_tensorflow()
        from myxtts.synthesis.export import export_model
        from myxtts.synthesis.tts import TTS

        tts = TTS(run_dir)
        language = tts.tokenizer.own_language(options.language or tts.languages[0])
        progress.begin(f"converting to {options.format}", is_brief=True)
        export_model(tts, folder, options.format, options=speech, language=language)
    megabytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    say(f"{folder}: {options.format}, {megabytes:.1f} MB; try it with {folder / 'example.py'}")
    return 0
