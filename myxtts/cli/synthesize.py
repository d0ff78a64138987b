"""`myxtts synthesize`: says a text in the voice of a recording, or in a saved voice."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from myxtts.cli.console import say
from myxtts.errors import DataError
from myxtts.models.speech_options import SpeechOptionError, SpeechOptions


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "synthesize",
        help="say a text in the voice of a recording",
        description="Says a text in the voice of one or several recordings, into a wav file.",
    )
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of a trained run")
    parser.add_argument("--text", required=True, help="what to say")
    voice = parser.add_mutually_exclusive_group(required=True)
    voice.add_argument("--voice", metavar="NAME", help="a voice saved by myxtts voice add")
    voice.add_argument(
        "--speaker-wav",
        type=Path,
        nargs="+",
        metavar="REF",
        help="recordings of the voice, a few seconds in all",
    )
    parser.add_argument("--language", help="code such as en (default: the model's first)")
    parser.add_argument("--out", type=Path, required=True, help="wav file to write")
    parser.add_argument("--steps", type=int, default=10, help="Euler steps (default: 10)")
    parser.add_argument(
        "--temperature", type=float, default=0.3, help="0 even to 1 lively (default: 0.3)"
    )
    for condition in ("text", "voice"):
        parser.add_argument(
            f"--{condition}-guidance",
            type=float,
            metavar="G",
            help=f"0 off, more keeps closer to the {condition} (default: the run's setting)",
        )
    parser.add_argument("--speed", type=float, default=1.0, help="1.2 is faster (default: 1.0)")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same samples (default: 0)")
    return parser


def run(options: argparse.Namespace) -> int:
    speech = _speech_options(options)
    if not options.text.strip():
        raise DataError("--text: nothing to say, the text is empty")
    from myxtts.devices.loading import load_tensorflow

    load_tensorflow()
    from myxtts.synthesis.tts import TTS

    tts = TTS(options.checkpoint)
    started = time.monotonic()
    tts.tts_to_file(
        text=options.text,
        speaker_wav=options.speaker_wav or tts.saved_voice(options.voice),
        language=options.language,
        file_path=options.out,
        options=speech,
    )
    import soundfile

    spoken = soundfile.info(options.out).duration
    say(f"{options.out}: {spoken:.1f} s of speech in {time.monotonic() - started:.1f} s")
    return 0


def _speech_options(options: argparse.Namespace) -> SpeechOptions:
    try:
        return SpeechOptions(
            steps=options.steps,
            temperature=options.temperature,
            text_guidance=options.text_guidance,
            voice_guidance=options.voice_guidance,
            speed=options.speed,
            seed=options.seed,
        )
    except SpeechOptionError as error:
        flag = f"--{error.option.replace('_', '-')}"
        raise DataError(f"{flag}: {error.problem}") from None
