"""`myxtts demo-data DIR`: generates the demo corpus."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from myxtts.cli.console import counting_bar, say
from myxtts.data.demo import (
    DEFAULT_SPEAKERS,
    DEFAULT_UTTERANCES,
    copy_natural_corpus,
    make_demo_corpus,
)
from myxtts.errors import DataError


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo-data",
        help="generate a small corpus with espeak-ng to try things out",
        description="Generate a small multi-speaker corpus with espeak-ng, or copy the included "
        "minutes of a human voice, in LJSpeech layout.",
    )
    parser.add_argument(
        "dir", type=Path, metavar="DIR", help="folder to create; must be new or empty"
    )
    parser.add_argument(
        "--natural",
        action="store_true",
        help="five minutes of one human voice, in English, instead of espeak-ng",
    )
    parser.add_argument(
        "--utterances",
        type=int,
        default=DEFAULT_UTTERANCES,
        metavar="N",
        help="number of training clips",
    )
    parser.add_argument(
        "--languages",
        "--language",
        default="en",
        metavar="TAGS",
        help="languages, such as en,fa",
    )
    parser.add_argument(
        "--speakers", type=int, default=DEFAULT_SPEAKERS, metavar="N", help="number of speakers"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="random seed for assigning sentences to speakers",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    if options.natural:
        copy_natural_corpus(options.dir)
        say(f"Demo corpus: a human voice (CC0) in {options.dir}")
        say(f"Next: myxtts train {options.dir} --config demo")
        return 0
    languages = tuple(part.strip() for part in options.languages.split(",") if part.strip())
    if not languages:
        raise DataError("--languages: is empty, expected language tags such as en,fa")
    with counting_bar("Generating the demo corpus", "clip") as on_progress:
        seconds = make_demo_corpus(
            options.dir,
            utterances=options.utterances,
            languages=languages,
            speakers=options.speakers,
            seed=options.seed,
            on_progress=on_progress,
        )
    say(f"Demo corpus: {seconds / 60:.1f} minutes in {options.dir}")
    say(f"Next: myxtts train {options.dir}")
    return 0
