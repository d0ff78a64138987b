"""What speaking needs of a checkpoint, in a folder of its own, without a copy of the weights.

The checkpoints of a run are removed when newer ones come. What is being measured, or is the best
so far, has to stay: its files get a second name (a hard link), or a copy where there are none.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from myxtts.errors import CheckpointError
from myxtts.runs.checkpoint_files import MANIFEST, move_into_place
from myxtts.runs.checkpoints import NEEDED_TO_SPEAK


def take_snapshot(checkpoint: Path, target: Path) -> Path:
    """`target` becomes this checkpoint without its training state; what was there is replaced."""
    part = target.with_name(f".{target.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for name in (*NEEDED_TO_SPEAK, MANIFEST):
            _second_name(checkpoint / name, part / name)
        move_into_place(part, target)
    except OSError as error:
        raise CheckpointError(f"{target}: cannot be written ({error})") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def _second_name(file: Path, target: Path) -> None:
    try:
        target.hardlink_to(file)
    except FileNotFoundError:
        raise
    except OSError:  # not every file system has hard links
        shutil.copy2(file, target)
