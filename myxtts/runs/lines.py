"""JSON Lines files with one object per step: metrics.jsonl and measures.jsonl of a run.

A line is an object of numbers, or null for those that were not finite.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
from pathlib import Path
from typing import Any

from myxtts.errors import CheckpointError
from myxtts.json_files import parse_json
from myxtts.whole_files import write_whole_file

_log = logging.getLogger(__name__)


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Empty without a file. Skips an unfinished last line, which a run may be writing."""
    return _all_parsed(file, _whole_lines(file))


def drop_lines_after(file: Path, step: int) -> None:
    """A resumed run repeats the steps since its checkpoint; this removes their old lines.

    A half-written line, as after a power failure, is removed as well, and so is with a warning
    what no run has written.
    """
    kept, problems = [], []
    for number, line in enumerate(_whole_lines(file), 1):
        try:
            if _parsed(line)["step"] <= step:
                kept.append(line)
        except ValueError as error:
            problems.append(f"{file}:{number}: not a line of a run ({error})")
    if problems:
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        _log.warning("%s%s: removed", problems[0], more)
    if file.is_file():
        write_whole_file(file, b"".join(kept))


def append_line(file: Path, step: int, values: dict[str, float | None]) -> None:
    """The whole line or, on a full disk, nothing of it."""
    line = json.dumps({"step": step, **values}).encode() + b"\n"
    with open(file, "ab", buffering=0) as stream:
        size = stream.seek(0, os.SEEK_END)
        if stream.write(line) != len(line):
            stream.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))


def sync_lines(file: Path) -> None:
    """Makes the lines so far survive a power failure, where the file system can do that."""
    with contextlib.suppress(OSError), open(file, "rb") as stream:
        os.fsync(stream.fileno())


def _whole_lines(file: Path) -> list[bytes]:
    try:
        return _whole(file.read_bytes())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(file, error) from None


def _whole(content: bytes) -> list[bytes]:
    return [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]


def _unreadable(file: Path, error: OSError) -> CheckpointError:
    return CheckpointError(f"{file}: cannot be read ({error.strerror})")


def _all_parsed(file: Path, lines: list[bytes]) -> list[dict[str, Any]]:
    parsed = []
    for number, line in enumerate(lines, 1):
        try:
            parsed.append(_parsed(line))
        except ValueError as error:
            raise CheckpointError(
                f"{file}:{number}: not a line of a run ({error}); remove that line"
            ) from None
    return parsed


def _parsed(line: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = parse_json(line, ("step",))
    return parsed
