"""JSON Lines files with one object per step: metrics.jsonl and measures.jsonl of a run."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

from myxtts.errors import CheckpointError
from myxtts.whole_files import write_whole_file


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Empty without a file. Skips an unfinished last line, which a run may be writing."""
    if not file.is_file():
        return []
    text = file.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError as error:
        raise CheckpointError(f"{file}: not JSON Lines ({error})") from None


def drop_lines_after(file: Path, step: int) -> None:
    """A resumed run repeats the steps since its checkpoint; this removes their old lines.

    A half-written line, as after a power failure, is removed as well.
    """
    if not file.exists():
        return
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    kept = [line for line in lines if line.endswith("\n") and _step_of(line) <= step]
    write_whole_file(file, "".join(kept))


def _step_of(line: str) -> float:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return int(json.loads(line)["step"])
    return math.inf
