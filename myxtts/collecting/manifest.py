"""Reads and writes `metadata.csv` and `review.csv` of a collected corpus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from myxtts.collecting.records import CorpusFolder
from myxtts.errors import DataError
from myxtts.text.markup import read_text
from myxtts.whole_files import write_whole_file

_HEADER = "audio_file|text|speaker_name|language"
_REVIEW_HEADER = f"{_HEADER}|reason"


class Row(NamedTuple):
    id: str
    text: str
    speaker: str
    language: str
    reason: str = ""


def write_rows(folder: CorpusFolder, kept: Sequence[Row], review: Sequence[Row]) -> None:
    """Each file whole or not at all; a corpus without a clip to train on has no metadata."""
    try:
        lines = [f"{_line(row)}|{row.reason.replace('|', ' ')}" for row in review]
        write_whole_file(folder.review, "\n".join([_REVIEW_HEADER, *lines]) + "\n")
        if kept:
            write_whole_file(folder.metadata, "\n".join([_HEADER, *map(_line, kept)]) + "\n")
        else:
            folder.metadata.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{folder.folder}: cannot be written ({error.strerror})") from None


def _line(row: Row) -> str:
    return f"wavs/{row.id}.wav|{row.text}|{row.speaker}|{row.language}"


def read_rows(file: Path) -> list[Row]:
    """Empty without a file."""
    if not file.exists():
        return []
    header, *lines = read_text(file).splitlines() or [""]
    if header not in (_HEADER, _REVIEW_HEADER):
        raise DataError(f"{file}:1: found '{header[:80]}', expected {_HEADER}")
    rows = []
    for number, line in enumerate(lines, 2):
        cells = line.split("|")
        if len(cells) != len(header.split("|")):
            raise DataError(f"{file}:{number}: found {len(cells)} columns, expected {header}")
        name = cells[0].removeprefix("wavs/").removesuffix(".wav")
        rows.append(Row(name, *cells[1:]))
    return rows
