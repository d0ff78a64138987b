"""Reads text files of users."""

from __future__ import annotations

from pathlib import Path

from myxtts.errors import DataError

_LARGEST_FILE_BYTES = 1 << 24


def read_text(file: Path) -> str:
    """UTF-8, with or without a byte-order mark."""
    try:
        if file.stat().st_size > _LARGEST_FILE_BYTES:
            raise DataError(f"{file}: too large, expected at most 16 MB of text")
        return decoded(file.read_bytes(), str(file))
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{file}: cannot be read ({reason})") from None


def decoded(content: bytes, where: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{where}: line {line} is not UTF-8 text; save it as UTF-8") from None
    if "\0" in text:
        raise DataError(f"{where}: is not text (it contains zero bytes)")
    return text
