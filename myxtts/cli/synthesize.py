"""`myxtts synthesize`: speaks a text in the voice of a recording, or in a saved voice."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from myxtts.cli.console import say
from myxtts.cli.speaking_flags import add_vocoder_flag
from myxtts.errors import DataError
from myxtts.models.speech_options import SpeechOptionError, SpeechOptions


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "synthesize",
        help="speak a text in the voice of a recording",
        description="Speak a text in the voice of one or more recordings and write a WAV file.",
    )
    parser.add_argument(
        "--checkpoint", type=Path, required=True, metavar="RUN", help="folder of a trained run"
    )
    parser.add_argument("--text", required=True, help="text to speak")
    voice = parser.add_mutually_exclusive_group(required=True)
    voice.add_argument("--voice", metavar="NAME", help="voice saved with myxtts voice add")
    voice.add_argument(
        "--speaker-wav",
        type=Path,
        nargs="+",
        metavar="REF",
        help="recordings of the voice to clone; a few seconds in total are enough",
    )
    parser.add_argument(
        "--language", metavar="TAG", help="such as en (default: the model's first language)"
    )
    add_vocoder_flag(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="WAV file to write")
    parser.add_argument(
        "--steps",
        type=int,
        default=10,
        metavar="N",
        help="sampling steps: more is slower and slightly clearer (default: 10)",
    )
    parser.add_argument(
        "--temperature",
        type=float,
        default=0.3,
        metavar="T",
        help="0 is flat and stable, 1 is lively (default: 0.3)",
    )
    for condition in ("text", "voice"):
        parser.add_argument(
            f"--{condition}-guidance",
            type=float,
            metavar="SCALE",
            help=f"classifier-free guidance towards the {condition}: 0 is off, higher follows it "
            "more closely (default: the run's setting)",
        )
    parser.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="speaking rate: 1.2 is 20%% faster (default: 1.0)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="random seed: the same seed gives the same audio (default: 0)",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    speech = _speech_options(options)
    if not options.text.strip():
        raise DataError("--text: is empty, expected text to speak")
    from myxtts.devices.loading import load_tensorflow

    load_tensorflow()
    from myxtts.synthesis.tts import TTS

    tts = TTS(options.checkpoint, vocoder=options.vocoder)
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
