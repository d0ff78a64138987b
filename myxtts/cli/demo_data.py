"""`myxtts demo-data DIR`: generates the demo corpus."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from myxtts.cli.console import counting_bar, say
from myxtts.errors import DataError


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo-data",
        help="generate a small corpus with espeak-ng to try things out",
        description="Generate a small multi-speaker corpus with espeak-ng, in LJSpeech layout.",
    )
    parser.add_argument(
        "dir", type=Path, metavar="DIR", help="folder to create; must be new or empty"
    )
    parser.add_argument(
        "--utterances", type=int, metavar="N", help="number of training clips (default: 1000)"
    )
    parser.add_argument(
        "--languages",
        "--language",
        default="en",
        metavar="TAGS",
        help="languages, such as en,fa (default: en)",
    )
    parser.add_argument("--speakers", type=int, metavar="N", help="number of speakers (default: 4)")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="random seed for assigning sentences to speakers (default: 0)",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    from myxtts.data import demo

    languages = tuple(part.strip() for part in options.languages.split(",") if part.strip())
    if not languages:
        raise DataError("--languages: is empty, expected language tags such as en,fa")
    make(
        options.dir,
        utterances=demo.DEFAULT_UTTERANCES if options.utterances is None else options.utterances,
        languages=languages,
        speakers=demo.DEFAULT_SPEAKERS if options.speakers is None else options.speakers,
        seed=options.seed,
    )
    say(f"Next: myxtts train {options.dir}")
    return 0


def make(folder: Path, **settings: Any) -> None:
    """Generates the corpus with a progress bar and prints its size."""
    from myxtts.data.demo import make_demo_corpus

    with counting_bar("Generating the demo corpus", "clip") as on_progress:
        seconds = make_demo_corpus(folder, on_progress=on_progress, **settings)
    say(f"Demo corpus: {seconds / 60:.1f} minutes in {folder}")
