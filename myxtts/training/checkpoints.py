"""What a run has learnt, on disk: written beside its place and moved there when whole.

    RUN/checkpoints/step_00001000/model.safetensors      averaged weights: all that speaking needs
                                  training.safetensors   weights and moments: to go on training
                                  checkpoint.json        format, step, level of the mels

Nothing is pickled, so a checkpoint from a stranger cannot run code.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import safetensors
from safetensors.numpy import load_file, save_file

from myxtts.errors import CheckpointError

_FORMAT = "myxtts-checkpoint-1"
_FOLDER = "checkpoints"

Tensors = dict[str, npt.NDArray[np.float32]]


@dataclass(frozen=True)
class CheckpointInfo:
    """The small facts that belong to the weights."""

    step: int
    mel_mean: float
    mel_deviation: float


@dataclass(frozen=True)
class Checkpoint:
    folder: Path
    info: CheckpointInfo

    def averaged_weights(self) -> Tensors:
        return _read_tensors(self.folder / "model.safetensors")

    def training_state(self) -> Tensors:
        return _read_tensors(self.folder / "training.safetensors")


def save_checkpoint(
    run_dir: Path, info: CheckpointInfo, averaged: Tensors, training_state: Tensors, keep: int
) -> Path:
    """Writes a checkpoint and then removes all but the newest `keep`."""
    folder = run_dir / _FOLDER / f"step_{info.step:08d}"
    part = folder.with_name(f".{folder.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        save_file(averaged, part / "model.safetensors")
        save_file(training_state, part / "training.safetensors")
        content = json.dumps({"format": _FORMAT, **asdict(info)}, indent=1)
        (part / "checkpoint.json").write_text(content, encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(part, folder)
    except (OSError, safetensors.SafetensorError) as error:
        shutil.rmtree(part, ignore_errors=True)
        raise CheckpointError(f"{folder}: cannot be written ({error})") from None
    for old in _complete_checkpoints(run_dir)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def find_checkpoint(run_dir: Path) -> Checkpoint:
    """The newest checkpoint of a run folder."""
    if not run_dir.is_dir():
        raise CheckpointError(f"{run_dir}: no such folder; expected the folder of a run")
    complete = _complete_checkpoints(run_dir)
    if not complete:
        raise CheckpointError(
            f"{run_dir}: holds no checkpoint; expected the folder of a run that has saved one, "
            f"with {_FOLDER}/ in it"
        )
    return Checkpoint(complete[-1], _read_info(complete[-1]))


def has_checkpoint(run_dir: Path, step: int) -> bool:
    return any(_read_info(folder).step == step for folder in _complete_checkpoints(run_dir))


def _complete_checkpoints(run_dir: Path) -> list[Path]:
    return sorted(file.parent for file in (run_dir / _FOLDER).glob("step_*/checkpoint.json"))


def _read_info(folder: Path) -> CheckpointInfo:
    file = folder / "checkpoint.json"
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content.pop("format") != _FORMAT:
            raise ValueError("another format")
        return CheckpointInfo(**content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{file}: not a checkpoint of this version ({error})") from None


def _read_tensors(file: Path) -> Tensors:
    try:
        return load_file(file)
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{file}: cannot be read ({error})") from None
