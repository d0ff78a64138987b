"""The base model that comes with the package, for those who give no run."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from myxtts.errors import CheckpointError

_INCLUDED = resources.files("myxtts") / "weights" / "base"


def run_or_base(run: str | Path | None) -> Path:
    """The folder of a run; None means the included base model."""
    if run is not None:
        return Path(run)
    folder = Path(str(_INCLUDED))
    if not folder.is_dir():
        raise CheckpointError(
            "no run was given, and this installation includes no base model; give the folder of a "
            "trained run"
        )
    return folder
