"""A checkpoint as a run folder of its own: all that speaking needs, without a copy of the weights.

The checkpoints of a run are removed when newer ones come. What is being measured, or is the best
so far, has to stay: its files get a second name (a hard link), or a copy where there are none.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from myxtts.errors import CheckpointError

_RUN_FILES = ("config.yaml", "tokenizer.json")
_WEIGHT_FILES = ("model.safetensors", "checkpoint.json")


def take_snapshot(run_dir: Path, checkpoint: Path, target: Path) -> Path:
    """`target` becomes a run that holds this checkpoint alone; what stood there is replaced."""
    part = target.with_name(f".{target.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        weights = part / "checkpoints" / checkpoint.name
        weights.mkdir(parents=True)
        for name in _RUN_FILES:
            shutil.copy2(run_dir / name, part / name)
        for name in _WEIGHT_FILES:
            _second_name(checkpoint / name, weights / name)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(part, target)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise CheckpointError(f"{target}: cannot be written ({error})") from None
    return target


def _second_name(file: Path, target: Path) -> None:
    try:
        target.hardlink_to(file)
    except FileNotFoundError:
        raise
    except OSError:  # not every file system has hard links
        shutil.copy2(file, target)
