"""Recognises the columns of a metadata file, or reads them from the settings."""

from __future__ import annotations

import contextlib
import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from myxtts.errors import DataError
from myxtts.wording import plural

_COLUMN_NAMES = {
    "audio": {"audio_file", "audio", "wav", "wav_file", "file", "filename", "path", "id"},
    "text": {"text", "transcript", "transcription", "sentence", "normalized_text"},
    "speaker": {"speaker_name", "speaker", "speaker_id"},
    "language": {"language", "lang", "locale"},
}
NORMALISED_TEXT = "normalised text"
_IGNORED_COLUMN = "-"
_DELIMITERS = ("|", "\t", ",")
_DELIMITER_NAMES = {"tab": "\t", "\\t": "\t"}
_SAMPLE_ROWS = 200
# A sentence has a few hundred characters; a file with megabyte-long lines is not metadata.
LONGEST_ROW = 20_000


@dataclass(frozen=True)
class Layout:
    """The columns of a metadata file."""

    delimiter: str
    columns: tuple[str, ...]
    has_header: bool

    @property
    def names(self) -> str:
        """Column names joined by the delimiter."""
        return ("<tab>" if self.delimiter == "\t" else self.delimiter).join(self.columns)

    def describe(self) -> str:
        header = "with" if self.has_header else "without"
        return f"columns {self.names}, {header} a header row"


def parse_columns(layout: str) -> tuple[str, ...]:
    """Columns of a layout given by the user, such as `audio|text|speaker`."""
    names = [name.strip().lower() for name in re.split(r"[|,\t]", layout)]
    columns = tuple(_meaning(name) for name in names)
    allowed = [*_COLUMN_NAMES, NORMALISED_TEXT, _IGNORED_COLUMN]
    unknown = [name for name in columns if name not in allowed]
    if unknown:
        raise DataError(
            f"layout '{layout}': unknown column '{unknown[0]}', allowed: "
            f"{', '.join(allowed[:-1])}, or {_IGNORED_COLUMN} for an unused column"
        )
    for needed in ("audio", "text"):
        if columns.count(needed) != 1:
            raise DataError(f"layout '{layout}': expected one {needed} column")
    return columns


def parse_delimiter(delimiter: str) -> str:
    character = _DELIMITER_NAMES.get(delimiter, delimiter)
    if len(character) != 1 or character in "\r\n":
        raise DataError(f"delimiter {delimiter!r}: expected one character, such as | or , or tab")
    return character


def recognise_layout(
    file: Path,
    rows: Sequence[tuple[int, str]],
    columns: tuple[str, ...] | None = None,
    delimiter: str | None = None,
) -> Layout:
    """Detects the columns and the delimiter, except where they are given."""
    header = _header(rows[0][1], _DELIMITERS if delimiter is None else (delimiter,))
    if columns is not None:
        if delimiter is None:
            delimiter = header.delimiter if header else _fitting_delimiter(rows, len(columns))
        return Layout(delimiter, columns, header is not None)
    if header is not None:
        missing = {"audio", "text"} - set(header.columns)
        if missing:
            raise DataError(
                f"{file}:{rows[0][0]}: the header row names no {' and no '.join(sorted(missing))} "
                f"column; expected names such as audio_file|text|speaker_name|language"
            )
        return header
    delimiter = delimiter or "|"
    sample = [cells_of(line[:LONGEST_ROW], delimiter) for _, line in rows[:_SAMPLE_ROWS]]
    widths = Counter(map(len, sample))
    # Of equally many rows, those with a known number of columns are right.
    width = min(widths, key=lambda columns: (-widths[columns], columns not in (2, 3), columns))
    if width == 2:
        return Layout(delimiter, ("audio", "text"), False)
    if width == 3:
        return Layout(delimiter, _three_columns([row for row in sample if len(row) == 3]), False)
    raise DataError(
        f"{file}:{rows[0][0]}: found {count_columns(width)}, expected id|text, "
        "id|text|normalised text, wav|speaker|text, or a header row such as "
        "audio_file|text|speaker_name|language"
    )


def _fitting_delimiter(rows: Sequence[tuple[int, str]], width: int) -> str:
    def fitting_rows(delimiter: str) -> int:
        return sum(len(cells_of(line, delimiter)) == width for _, line in rows[:_SAMPLE_ROWS])

    return max(_DELIMITERS, key=fitting_rows)


def _three_columns(sample: Sequence[Sequence[str]]) -> tuple[str, str, str]:
    """A column of single, repeating words is a speaker; otherwise the layout is LJSpeech."""
    second = [cells[1] for cells in sample]
    third = [cells[2] for cells in sample]
    if _looks_like_names(second) and not _looks_like_names(third):
        return ("audio", "speaker", "text")
    if _looks_like_names(third) and not _looks_like_names(second):
        return ("audio", "text", "speaker")
    return ("audio", "text", NORMALISED_TEXT)


def _looks_like_names(values: Sequence[str]) -> bool:
    return all(value and len(value.split()) == 1 for value in values) and (
        len(set(values)) <= max(1, len(values) // 2)
    )


def _header(line: str, delimiters: Sequence[str]) -> Layout | None:
    for delimiter in delimiters:
        names = [name.strip().strip('"').lower() for name in line.split(delimiter)]
        meanings = [_meaning(name) for name in names]
        if len(names) > 1 and len({"audio", "text"} & set(meanings)) >= 1:
            known = sum(meaning in _COLUMN_NAMES for meaning in meanings)
            if known >= 2:
                return Layout(delimiter, tuple(meanings), True)
    return None


def _meaning(name: str) -> str:
    return next((key for key, known in _COLUMN_NAMES.items() if name in known), name)


def cells_of(line: str, delimiter: str) -> list[str]:
    """The cells of a row. Only comma-separated files use quoting; elsewhere quotes are text."""
    cells = line.split(delimiter)
    if delimiter == "," and '"' in line:
        with contextlib.suppress(csv.Error):
            cells = next(csv.reader([line], skipinitialspace=True))
    return [cell.strip() for cell in cells]


def count_columns(count: int) -> str:
    return f"{count} {plural(count, 'column')}"
