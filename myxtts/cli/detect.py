"""`myxtts detect`: whether recordings carry the mark of `synthesize --watermark`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from myxtts.cli.console import say, say_json
from myxtts.cli.exit_codes import CHECK_FAILED
from myxtts.cli.options import add_json
from myxtts.cli.parser import CommandParser


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: CommandParser = commands.add_parser(
        "detect",
        help="find the watermark of synthetic speech",
        description="Look for the watermark of myxtts synthesize --watermark in recordings, and "
        "show what their metadata say. Exits with 0 if every recording has the mark, else with 1.",
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="recordings")
    add_json(parser)
    parser.why_no_language = "the mark is the same in every language"
    return parser


def run(options: argparse.Namespace) -> int:
    rows = [_row(file) for file in options.files]
    if options.json:
        say_json({"files": rows})
    else:
        for row in rows:
            say(_line(row))
    return 0 if all(row["marked"] for row in rows) else CHECK_FAILED


def _row(file: Path) -> dict[str, Any]:
    from myxtts.audio.files import read_recording
    from myxtts.audio.watermark import find_watermark
    from myxtts.audio.writing import read_tags

    recording = read_recording(file)
    found = find_watermark(recording.samples, recording.sample_rate_hz)
    return {
        "file": str(file),
        "marked": found.is_marked,
        "score": round(found.score, 2),
        "seconds": round(recording.samples.size / recording.sample_rate_hz, 3),
        "comment": read_tags(file).get("comment"),
    }


def _line(row: dict[str, Any]) -> str:
    from myxtts.audio.watermark import SHORTEST_SECONDS

    if row["marked"]:
        answer = "marked as synthetic speech"
    elif row["seconds"] < SHORTEST_SECONDS:
        answer = f"no mark found, but {row['seconds']:.1f} s are too short to tell"
    else:
        answer = "no mark found"
    comment = f"; its metadata say: {row['comment']}" if row["comment"] else ""
    return f"{row['file']}: {answer} (score {row['score']:.1f}){comment}"
