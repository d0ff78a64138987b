"""What speaking needs of a checkpoint, in a folder of its own, without a copy of the weights.

The checkpoints of a run are removed when newer ones come. What is being measured, or is the best
so far, has to stay: its files get a second name (a hard link), or a copy where there are none.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from myxtts.runs.checkpoints import NEEDED_FOR_SYNTHESIS
from myxtts.runs.sealed_folder import MANIFEST, failures_explained
from myxtts.whole_files import whole_folder


def take_snapshot(checkpoint: Path, target: Path) -> Path:
    """`target` becomes this checkpoint without its training state; what was there is replaced."""
    with failures_explained(target), whole_folder(target, replace=True, durable=True) as part:
        for name in (*NEEDED_FOR_SYNTHESIS, MANIFEST):
            _second_name(checkpoint / name, part / name)
    return target


def _second_name(file: Path, target: Path) -> None:
    try:
        target.hardlink_to(file)
    except FileNotFoundError:
        raise
    except OSError:  # not every file system has hard links
        shutil.copy2(file, target)
