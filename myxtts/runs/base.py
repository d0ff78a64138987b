"""The base model and the vocoder that come with the package, for those who ask for them."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from myxtts.errors import CheckpointError

# In the place of a run's folder; one of this name goes before it.
BASE = "base"
VOCODER = "vocoder"
_WEIGHTS = Path(str(resources.files("myxtts") / "weights"))
_INCLUDED = _WEIGHTS / BASE
INCLUDED_VOCODER = _WEIGHTS / VOCODER
INCLUDED_VOICES = ("adam", "callie", "emma", "heart", "liam")
"""Voices of the base model, in lower case."""


def run_or_base(run: str | Path | None) -> Path:
    """The folder of a run; None and "base" mean the included base model."""
    if run is not None and (str(run) != BASE or Path(run).is_dir()):
        return Path(run)
    if not _INCLUDED.is_dir():
        raise CheckpointError(
            "this installation includes no base model; give the folder of a trained run"
        )
    return _INCLUDED


def run_to_start_from(run: str | Path) -> Path:
    """The folder of a run; "base" and "vocoder" mean what is included."""
    if str(run) == VOCODER and not Path(run).is_dir():
        return INCLUDED_VOCODER
    return run_or_base(run)


def is_included(run: Path) -> bool:
    """Return whether a folder is that of the included base model."""
    return run.resolve() == _INCLUDED.resolve()


def model_name(run: Path) -> str:
    """For the screen: where the package is installed is of no interest."""
    return "the base model" if run == _INCLUDED else str(run)
