"""Going on with a run: which one, with which settings, and what it has spent so far."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from myxtts.config.changes import Change, changes_between
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError
from myxtts.runs.checkpoint_files import MANIFEST
from myxtts.runs.checkpoints import Checkpoint, checkpoint_folders


def newest_run(folders: Path) -> Path | None:
    """Of the runs in a folder, the one that was saved last."""
    saved = {run: _last_saved(run) for run in folders.glob("*") if checkpoint_folders(run)}
    return max(saved, key=lambda run: (saved[run], run.name)) if saved else None


def _last_saved(run: Path) -> float:
    manifests = (folder / MANIFEST for folder in checkpoint_folders(run))
    return max((file.stat().st_mtime for file in manifests if file.is_file()), default=0.0)


def changes_since(checkpoint: Checkpoint, config: XTTSConfig) -> list[Change]:
    """What differs from the settings of a checkpoint; what would break its model is an error."""
    changes = changes_between(checkpoint.config(), config)
    for change in changes:
        if change.breaks_the_model:
            raise CheckpointError(
                f"{checkpoint.folder}: does not fit this configuration: {change.name} is "
                f"{change.given} and the model was trained with {change.saved}; leave it as it "
                "was, or start a new run"
            )
    return changes


def add_seconds(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Two accounts as one; a bucket that only one of them has counts as well."""
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in {**one, **other}}
