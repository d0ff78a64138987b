"""Flags of the commands that speak, and the options of speech that they become."""

from __future__ import annotations

import argparse

from myxtts.cli.parser import flag_group
from myxtts.errors import DataError
from myxtts.models.speech_options import SpeechOptionError, SpeechOptions

_DEFAULTS = SpeechOptions()


def add_vocoder_flag(parser: argparse.ArgumentParser) -> None:
    flag_group(parser, "speech").add_argument(
        "--vocoder",
        metavar="RUN",
        help="run that was trained with --task vocoder, or griffin-lim (default: the included one)",
    )


def add_speech_flags(parser: argparse.ArgumentParser) -> None:
    group = flag_group(parser, "speech")
    group.add_argument(
        "--steps",
        type=int,
        default=_DEFAULTS.steps,
        metavar="N",
        help=f"sampling steps: more is slower and slightly clearer (default: {_DEFAULTS.steps:g})",
    )
    group.add_argument(
        "--temperature",
        type=float,
        default=_DEFAULTS.temperature,
        metavar="T",
        help=f"0 is flat and stable, 1 is lively (default: {_DEFAULTS.temperature:g})",
    )
    for condition in ("text", "voice"):
        group.add_argument(
            f"--{condition}-guidance",
            type=float,
            metavar="SCALE",
            help=f"classifier-free guidance towards the {condition}: 0 is off, higher follows it "
            "more closely (default: the run's setting)",
        )
    group.add_argument(
        "--speed",
        type=float,
        default=_DEFAULTS.speed,
        metavar="FACTOR",
        help=f"speaking rate: 1.2 is 20%% faster (default: {_DEFAULTS.speed:g})",
    )
    group.add_argument(
        "--loudness",
        type=float,
        default=_DEFAULTS.loudness,
        metavar="DBFS",
        help=f"RMS level of the speech (default: {_DEFAULTS.loudness:g}); peaks stay below -1 dBFS",
    )
    group.add_argument(
        "--seed",
        type=int,
        default=_DEFAULTS.seed,
        metavar="N",
        help=f"random seed: the same seed gives the same audio (default: {_DEFAULTS.seed:g})",
    )


def speech_options(options: argparse.Namespace) -> SpeechOptions:
    try:
        return SpeechOptions(
            steps=options.steps,
            temperature=options.temperature,
            text_guidance=options.text_guidance,
            voice_guidance=options.voice_guidance,
            speed=options.speed,
            loudness=options.loudness,
            seed=options.seed,
        )
    except SpeechOptionError as error:
        flag = f"--{error.option.replace('_', '-')}"
        raise DataError(f"{flag}: {error.problem}") from None
