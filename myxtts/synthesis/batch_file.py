"""A table of many texts to speak: CSV or TSV with id, text, voice and language. No TensorFlow."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from myxtts.config.names import did_you_mean
from myxtts.errors import DataError
from myxtts.text.markup import read_text

COLUMNS = ("id", "text", "voice", "language")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
# Of a .csv without a comma in its first line; spreadsheets write ; where a comma is in numbers.
_OTHER_SEPARATORS = ("|", ";")
_ID = re.compile(r"[^\W_][\w. -]{0,99}", re.UNICODE)


class Request(NamedTuple):
    id: str
    """The name of its file, without the ending."""
    text: str
    voice: str | None = None
    """A saved voice, or a recording."""
    language: str | None = None


def read_batch(file: Path) -> list[Request]:
    """The first line may name the columns; without it they are id, text, voice, language."""
    if file.suffix.lower() not in _SEPARATORS:
        raise DataError(f"{file}: expected a name that ends in {' or '.join(_SEPARATORS)}")
    text = read_text(file)
    separator = _SEPARATORS[file.suffix.lower()]
    first_line = text.partition("\n")[0]
    if separator == "," and "," not in first_line:
        separator = next((other for other in _OTHER_SEPARATORS if other in first_line), ",")
    reader = csv.reader(
        io.StringIO(text),
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if separator in ",;" else csv.QUOTE_NONE,
        strict=True,
    )
    try:
        rows = [(reader.line_num, row) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise DataError(f"{file}: line {reader.line_num}: {error}") from None
    names: Sequence[str] = COLUMNS
    if rows and "text" in (first := [cell.strip().lower() for cell in rows[0][1]]):
        names, rows = _known(first, file), rows[1:]
    requests = [_request(file, number, names, row) for number, row in rows]
    if not requests:
        raise DataError(f"{file}: has no rows, expected {', '.join(COLUMNS)}")
    _require_distinct(file, requests)
    return requests


def _known(names: list[str], file: Path) -> list[str]:
    for name in names:
        if name not in COLUMNS:
            raise DataError(
                f"{file}: unknown column '{name}', expected {', '.join(COLUMNS)}"
                f"{did_you_mean(name, COLUMNS)}"
            )
    if "id" not in names:
        raise DataError(f"{file}: has no column 'id', expected {', '.join(COLUMNS)}")
    return names


def _request(file: Path, number: int, names: Sequence[str], row: Sequence[str]) -> Request:
    if len(row) > len(names):
        raise DataError(
            f"{file}: line {number}: found {len(row)} columns, expected at most {len(names)}: "
            f"{', '.join(names)}; a text with the separator in it needs quotation marks"
        )
    cells = {name: cell.strip() for name, cell in zip(names, row, strict=False)}
    identity, text = cells.get("id", ""), cells.get("text", "")
    if not _ID.fullmatch(identity) or identity.endswith((".", " ")):
        raise DataError(
            f"{file}: line {number}: id {identity[:100]!r}, expected a name for a file: letters, "
            "digits and . _ -, at most 100"
        )
    if not text:
        raise DataError(f"{file}: line {number}: '{identity}' has no text")
    return Request(identity, text, cells.get("voice") or None, cells.get("language") or None)


def _require_distinct(file: Path, requests: Sequence[Request]) -> None:
    seen: dict[str, str] = {}
    for request in requests:
        # Some file systems are case-insensitive.
        key = request.id.casefold()
        if key in seen:
            raise DataError(f"{file}: the ids '{seen[key]}' and '{request.id}' are the same file")
        seen[key] = request.id
