"""Reads JSON files of this program. Knows no particular file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def read_json(file: Path, names: Iterable[str] = ()) -> Any:
    """Return the content of a file; OSError, or ValueError as in `parse_json`."""
    return parse_json(file.read_bytes(), names)


def parse_json(text: str | bytes, names: Iterable[str] = ()) -> Any:
    """Return the value; ValueError unless it is an object with all of these names, if any."""
    content = json.loads(text)
    for name in names:
        if not isinstance(content, dict):
            raise ValueError(f"found {type(content).__name__}, expected an object")
        if name not in content:
            raise ValueError(f"'{name}' is missing")
    return content
