"""Where `synthesize` takes texts from, and which file each of them becomes. No TensorFlow."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from myxtts.audio.formats import AUDIO_ENDINGS, require_writable
from myxtts.cli.help_text import flag_group
from myxtts.errors import DataError
from myxtts.synthesis.batch_file import Request, read_batch
from myxtts.text.markup import read_standard_input, read_text
from myxtts.whole_files import require_room

STANDARD_INPUT = "-"


class SpeechJob(NamedTuple):
    request: Request
    file: Path | None
    """None: it is only played."""


def read_jobs(options: argparse.Namespace) -> list[SpeechJob]:
    """Everything that is to be spoken; what is wrong with a source or a target is an error."""
    if options.batch is not None and options.out_dir is None:
        raise DataError("--batch: needs --out-dir DIR, for a file for each row")
    if options.out_dir is None:
        if options.out is None and not options.play:
            raise DataError("where to? Give --out FILE, --out-dir DIR or --play")
        if options.out is not None:
            require_writable(options.out)
        if options.subtitles is not None and (options.out is None or options.play):
            raise DataError("--subtitles: goes with --out FILE, and not with --play")
        name, text = _text(options)
        return [SpeechJob(Request(name, text), options.out)]
    if options.play or options.subtitles is not None:
        flag = "--play" if options.play else "--subtitles"
        raise DataError(f"{flag}: goes with --out FILE, not with --out-dir")
    return _jobs_of_folder(options)


def _jobs_of_folder(options: argparse.Namespace) -> list[SpeechJob]:
    folder: Path = options.out_dir
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder}: is a file, expected a folder for --out-dir")
    if not folder.is_dir() and not folder.absolute().parent.is_dir():
        raise DataError(f"{folder}: cannot be made (no folder {folder.parent})")
    try:
        require_room(folder / "file" if folder.is_dir() else folder.absolute())
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from None
    if options.batch is not None:
        requests = read_batch(options.batch)
    else:
        _, text = _text(options)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        # As within a text: a line of dashes is skipped unless there are no others.
        lines = [line for line in lines if any(map(str.isalnum, line))] or lines
        digits = max(3, len(str(len(lines))))
        requests = [Request(f"{n:0{digits}d}", line) for n, line in enumerate(lines, start=1)]
    return [SpeechJob(one, folder / f"{one.id}.{options.format}") for one in requests]


def _text(options: argparse.Namespace) -> tuple[str, str]:
    """The name of the source, and its text."""
    if STANDARD_INPUT in (options.text, str(options.text_file)):
        name, text = "standard input", read_standard_input()
    elif options.text_file is not None:
        name, text = str(options.text_file), read_text(options.text_file)
    elif options.text is not None:
        name, text = "--text", options.text
    else:
        raise DataError("what to say? Give --text TEXT, --text-file FILE or --batch FILE")
    if not text.strip():
        raise DataError(f"{name}: is empty, expected text to speak")
    return name, text


def add_source_flags(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--text", help="text to speak; - reads standard input")
    source.add_argument(
        "--text-file",
        "--text_file",
        type=Path,
        metavar="FILE",
        help="UTF-8 text file to speak; - is standard input",
    )
    source.add_argument(
        "--batch",
        type=Path,
        metavar="FILE",
        help="CSV or TSV with the columns id, text, voice, language; needs --out-dir",
    )


def add_target_flags(parser: argparse.ArgumentParser) -> None:
    group = flag_group(parser, "output")
    target = group.add_mutually_exclusive_group()
    target.add_argument(
        "--out",
        "--out-path",
        "--out_path",
        type=Path,
        metavar="FILE",
        help=f"file to write: {', '.join(AUDIO_ENDINGS)}, by the ending of its name",
    )
    target.add_argument(
        "--out-dir",
        type=Path,
        metavar="DIR",
        help="folder for a file for each row of --batch or each line of the text; files that are "
        "there are kept",
    )
    group.add_argument(
        "--format",
        choices=AUDIO_ENDINGS,
        default="wav",
        help="of the files in --out-dir (default: wav)",
    )
    group.add_argument(
        "--overwrite", action="store_true", help="replace files that are in --out-dir"
    )
