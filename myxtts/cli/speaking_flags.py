"""Flags of the commands that speak."""

from __future__ import annotations

import argparse


def add_vocoder_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--vocoder",
        metavar="RUN",
        help="run that was trained with --task vocoder, or griffin-lim (default: the included one)",
    )
