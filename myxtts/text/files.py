"""Reads text files of users."""

from __future__ import annotations

import sys
from pathlib import Path

from myxtts.errors import DataError

_LARGEST_FILE_BYTES = 1 << 24


def read_text(file: Path) -> str:
    """UTF-8, with or without a byte-order mark."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from None
    return _decoded(content, str(file))


def read_standard_input() -> str:
    name = "standard input"
    content = sys.stdin.buffer.read(_LARGEST_FILE_BYTES + 1)
    if len(content) > _LARGEST_FILE_BYTES:
        raise DataError(f"{name}: more than {_LARGEST_FILE_BYTES} bytes; split it into parts")
    return _decoded(content, name)


def _decoded(content: bytes, where: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{where}: line {line} is not UTF-8 text; save it as UTF-8") from None
    if "\0" in text:
        raise DataError(f"{where}: is not text (it contains zero bytes)")
    return text
