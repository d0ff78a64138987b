"""The part of a checkpoint that synthesis needs, in a separate folder, without copying the weights.

Old checkpoints of a run are removed. One that is being evaluated, or is the best so far, has to
stay: its files are hard-linked, or copied where the file system has no hard links.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from myxtts.runs.checkpoints import NEEDED_FOR_SYNTHESIS
from myxtts.runs.sealed_folder import MANIFEST, failures_explained
from myxtts.whole_files import whole_folder


def take_snapshot(checkpoint: Path, target: Path) -> Path:
    """Links the checkpoint, without its training state, as `target`, which is replaced."""
    with failures_explained(target), whole_folder(target, replace=True, durable=True) as part:
        for name in (*NEEDED_FOR_SYNTHESIS, MANIFEST):
            _link_or_copy(checkpoint / name, part / name)
    return target


def _link_or_copy(file: Path, target: Path) -> None:
    try:
        target.hardlink_to(file)
    except FileNotFoundError:
        raise
    except OSError:  # not every file system has hard links
        shutil.copy2(file, target)
