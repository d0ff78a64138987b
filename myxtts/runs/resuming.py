"""Resuming a run: changed settings, and the time spent so far."""

from __future__ import annotations

from collections.abc import Mapping

from myxtts.config.changes import Change, changes_between
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError
from myxtts.runs.checkpoints import Checkpoint
from myxtts.runs.run_dir import RunDir


def changes_since(checkpoint: Checkpoint, config: XTTSConfig) -> list[Change]:
    """Settings that differ from a checkpoint's; one that would break its model is an error."""
    changes = changes_between(checkpoint.config(), config)
    for change in changes:
        if change.breaks_the_model:
            raise CheckpointError(
                f"{checkpoint.folder}: does not match this configuration: {change.name} is "
                f"{change.given}, but the model was trained with {change.saved}; change it back, "
                "or start a new run"
            )
    return changes


def require_length(run: RunDir, checkpoint: Checkpoint, steps: int) -> None:
    """A run cannot become shorter than it is."""
    if checkpoint.info.step > steps:
        raise CheckpointError(
            f"{run}: has already trained {checkpoint.info.step} steps, and its length is {steps}; "
            "raise --max-steps or --epochs"
        )


def add_seconds(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """The sum of two time accounts, over the buckets of both."""
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in {**one, **other}}
