"""`myxtts prepare CORPUS`: computes the features of a corpus before training."""

from __future__ import annotations

import argparse
import time
from typing import Any

from myxtts.cli.console import counting_bar, say
from myxtts.cli.parser import (
    add_config_options,
    add_corpus,
    add_language,
    add_val_data,
    add_workers,
    configuration,
    flag_group,
    required_corpus,
)
from myxtts.data.metadata import require_corpora
from myxtts.devices.startup import load_tensorflow
from myxtts.errors import plural_count


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "prepare",
        help="compute the features of a corpus once, for all runs",
        description="Decode, check, trim and normalize every clip, and cache tokens, mels and "
        "samples on disk. Resumes after an interruption and recomputes only clips that changed.",
    )
    add_corpus(parser, "folder of the corpus")
    add_val_data(parser)
    add_language(parser)
    add_config_options(parser)
    add_workers(parser)
    flag_group(parser, "devices").add_argument(
        "--dask",
        metavar="ADDRESS",
        help="dask.distributed scheduler whose workers compute the features, such as "
        "tcp://host:8786; they share the corpus folder (default: processes of this machine)",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    required_corpus(options)
    config = configuration(options)
    require_corpora(config)
    load_tensorflow()
    from myxtts.data.corpus import prepare_subset, read_subset

    train = read_subset(config, "train")
    for dataset, name in (
        (train, "training"),
        (read_subset(config, "eval", train), "validation"),
    ):
        started = time.monotonic()
        with counting_bar(f"Preparing {name} clips", "clip") as on_progress:
            cache = prepare_subset(dataset, config, on_progress, options.dask)
        hours = cache.index["audio_count"].sum() / config.audio.sample_rate_hz / 3_600
        say(
            f"{name.capitalize()}: {plural_count(len(cache), 'clip')}, {hours:.2f} hours, "
            f"{time.monotonic() - started:.1f} s, in {cache.folder}"
        )
        for reason, count in cache.rejected.items():
            say(f"  left out: {plural_count(count, 'clip')}, {reason}")
    return 0
