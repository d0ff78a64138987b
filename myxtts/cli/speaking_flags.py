"""Flags of the commands that speak, and the options of speech that they become."""

from __future__ import annotations

import argparse

from myxtts.errors import DataError
from myxtts.models.speech_options import SpeechOptionError, SpeechOptions


def add_vocoder_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--vocoder",
        metavar="RUN",
        help="run that was trained with --task vocoder, or griffin-lim (default: the included one)",
    )


def add_speech_flags(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument(
        "--sharpness",
        type=float,
        default=0.0,
        metavar="AMOUNT",
        help="0 leaves the sound as the model predicts it, 1 is crisper (default: 0)",
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
        "--pitch",
        type=float,
        default=0.0,
        metavar="SEMITONES",
        help="2 is higher, -2 lower, in the same voice (default: 0)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="random seed: the same seed gives the same audio (default: 0)",
    )


def speech_options(options: argparse.Namespace) -> SpeechOptions:
    try:
        return SpeechOptions(
            steps=options.steps,
            temperature=options.temperature,
            sharpness=options.sharpness,
            text_guidance=options.text_guidance,
            voice_guidance=options.voice_guidance,
            speed=options.speed,
            pitch=options.pitch,
            seed=options.seed,
        )
    except SpeechOptionError as error:
        flag = f"--{error.option.replace('_', '-')}"
        raise DataError(f"{flag}: {error.problem}") from None
