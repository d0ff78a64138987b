"""The base model that comes with the package, for those who give no run or ask for it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from myxtts.errors import CheckpointError

# In the place of a run's folder; one of this name goes before it.
BASE = "base"
_INCLUDED = Path(str(resources.files("myxtts") / "weights" / "base"))


def run_or_base(run: str | Path | None) -> Path:
    """The folder of a run; None and "base" mean the included base model."""
    if run is not None and (str(run) != BASE or Path(run).is_dir()):
        return Path(run)
    if not _INCLUDED.is_dir():
        raise CheckpointError(
            "this installation includes no base model; give the folder of a trained run"
        )
    return _INCLUDED


def model_name(run: Path) -> str:
    """For the screen: where the package is installed is of no interest."""
    return "the base model" if run == _INCLUDED else str(run)
