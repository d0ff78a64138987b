"""Going on with a run: with which settings, and what it has spent so far."""

from __future__ import annotations

from collections.abc import Mapping

from myxtts.config.changes import Change, changes_between
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError
from myxtts.runs.checkpoints import Checkpoint


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
