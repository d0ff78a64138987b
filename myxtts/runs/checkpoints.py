"""A checkpoint on disk, as one unit: everything that synthesis and resuming need.

STORE/step_00001000/model.safetensors      EMA weights: all that synthesis needs
                    training.safetensors   weights, moments, step, rate factor
                    config.yaml  tokenizer.json  shapes.json
                    checkpoint.json        step, mel mean and deviation, seed, position, metrics
                    manifest.json          checksums of all of these

Knows the file names in a checkpoint. `run_dir` knows where in a run the store is.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from myxtts.config.config import XTTSConfig
from myxtts.config.loading import load_config
from myxtts.errors import CheckpointError
from myxtts.json_files import read_json
from myxtts.runs.sealed_folder import (
    MANIFEST,
    Content,
    checksum_of,
    verify_sealed_folder,
    write_sealed_folder,
)
from myxtts.runs.tensor_files import Shapes, Tensors, read_tensors, tensor_shapes
from myxtts.text.tokenizer import Tokenizer

_log = logging.getLogger(__name__)

_NAME = re.compile(r"step_(\d{8,18})")
_MODEL, _TRAINING, _INFO = "model.safetensors", "training.safetensors", "checkpoint.json"
CONFIG, TOKENIZER, PLAN = "config.yaml", "tokenizer.json", "shapes.json"
# Files that the run folder has under the same names; every checkpoint has its own copy.
FILES_OF_RUN = (CONFIG, TOKENIZER, PLAN)
NEEDED_FOR_SYNTHESIS = (_MODEL, _INFO, CONFIG, TOKENIZER)
_EMA = "average/"


@dataclass(frozen=True)
class MetricsSoFar:
    """What the next line of metrics.jsonl and the report need of the steps so far.

    `frames` and `work` are pairs: real and computed.
    """

    steps: int = 0
    """Since the last line."""
    sums: dict[str, float | None] = field(default_factory=dict)
    """Over these steps; null if one was not finite."""
    interval_frames: list[float] = field(default_factory=lambda: [0.0, 0.0])
    frames: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """Before these steps."""
    work: list[float] = field(default_factory=lambda: [0.0, 0.0])


@dataclass(frozen=True)
class CheckpointInfo:
    """Small values saved with the weights."""

    step: int
    mel_mean: float
    mel_deviation: float
    seed: int = 0
    epoch: int = 0
    batch: int = 0
    """The next batch of the epoch."""
    metrics: dict[str, float | None] = field(default_factory=dict)
    """The last line of metrics.jsonl."""
    seconds: dict[str, float] = field(default_factory=dict)
    """The time account of the run so far, by bucket."""
    so_far: MetricsSoFar | None = None
    corpus: dict[str, str] = field(default_factory=dict)
    """Fingerprints of the clips and their plan."""


@dataclass(frozen=True)
class Checkpoint:
    folder: Path
    info: CheckpointInfo

    def ema_weights(self, names: Iterable[str] | None = None) -> Tensors:
        """All, or those of these names."""
        return read_tensors(self.folder / _MODEL, names)

    def ema_shapes(self) -> Shapes:
        """From the header alone."""
        return tensor_shapes(self.folder / _MODEL)

    def require_shapes(self, variables: Iterable[Any]) -> None:
        """Raises an error unless the EMA weights are those of a model; reads only their header.

        The variables need no values: a configuration may declare a model that fits no memory.
        """
        shapes = self.ema_shapes()
        for variable in variables:
            if shapes.get(variable.path) != tuple(variable.shape):
                raise CheckpointError(
                    f"{self.folder}: {variable.path} is missing, or its shape does not match "
                    "config.yaml"
                )

    def weights_checksum(self) -> str:
        """Identifies these EMA weights; equal for every copy of them."""
        return checksum_of(self.folder, _MODEL)

    def training_state(self) -> Tensors:
        """The whole state of the optimizer; EMA weights are stored once for both purposes."""
        ema = {f"{_EMA}{name}": value for name, value in self.ema_weights().items()}
        return read_tensors(self.folder / _TRAINING) | ema

    def training_shapes(self) -> Shapes:
        """Those of `training_state`, from headers alone."""
        ema = {f"{_EMA}{name}": shape for name, shape in self.ema_shapes().items()}
        return tensor_shapes(self.folder / _TRAINING) | ema

    @property
    def config_file(self) -> Path:
        return self.folder / CONFIG

    @property
    def plan_file(self) -> Path:
        return self.folder / PLAN

    def config(self) -> XTTSConfig:
        return load_config(self.config_file)

    def tokenizer(self) -> Tokenizer:
        return Tokenizer.load(self.folder / TOKENIZER)


def step_name(step: int) -> str:
    """The name of a step's files and folders."""
    return f"step_{step:08d}"


def save_checkpoint(
    store: Path,
    info: CheckpointInfo,
    training_state: Tensors,
    files_of_run: Mapping[str, bytes],
    keep: int,
) -> Path:
    """Writes a checkpoint and, once it is complete, removes all but the newest `keep`."""
    folder = store / step_name(info.step)
    # Runs are deterministic, so the same step twice is the same state.
    if not _is_intact(folder):
        ema = {
            name.removeprefix(_EMA): value
            for name, value in training_state.items()
            if name.startswith(_EMA)
        }
        rest = {name: value for name, value in training_state.items() if not name.startswith(_EMA)}
        content: dict[str, Content] = {
            **files_of_run,
            _MODEL: ema,
            _TRAINING: rest,
            _INFO: json.dumps(asdict(info), indent=1).encode(),
        }
        write_sealed_folder(folder, content)
    _remove_older(folder, keep)
    return folder


def open_checkpoint(folder: Path, *, for_synthesis: bool = False) -> Checkpoint:
    """Verifies and opens a checkpoint; `for_synthesis` checks only the files that needs."""
    verify_sealed_folder(folder, NEEDED_FOR_SYNTHESIS if for_synthesis else None)
    return Checkpoint(folder, _read_info(folder / _INFO))


def newest_checkpoint(store: Path, *, for_synthesis: bool = False) -> Checkpoint:
    """The newest intact checkpoint; damaged ones are skipped with a warning."""
    folders, run_dir = checkpoint_folders(store), store.parent
    if not folders:
        raise CheckpointError(
            f"{run_dir}: contains no checkpoint; expected a run folder with checkpoints in "
            f"{store.name}/"
        )
    problems = []
    for folder in reversed(folders):
        try:
            return open_checkpoint(folder, for_synthesis=for_synthesis)
        except CheckpointError as error:
            problems.append(error)
            if len(problems) < len(folders):
                _log.warning("%s; trying the previous checkpoint", error)
    if len(problems) == 1:
        raise problems[0]
    raise CheckpointError(
        f"{run_dir}: all {len(problems)} checkpoints are damaged, the oldest: {problems[-1]}; "
        "restore one from a backup, or start a new run"
    )


def has_checkpoint(store: Path, step: int) -> bool:
    return _is_intact(store / step_name(step))


def checkpoint_folders(store: Path) -> list[Path]:
    """All checkpoints, oldest first, intact or not."""
    found = store.glob("step_*")
    return sorted(
        (path for path in found if _NAME.fullmatch(path.name) and not path.is_symlink()),
        key=_step_of,
    )


def last_saved(store: Path) -> float:
    """The time of the latest checkpoint, or 0."""
    manifests = (folder / MANIFEST for folder in checkpoint_folders(store))
    return max((file.stat().st_mtime for file in manifests if file.is_file()), default=0.0)


def _step_of(folder: Path) -> int:
    match = _NAME.fullmatch(folder.name)
    assert match is not None
    return int(match[1])


def _is_intact(folder: Path) -> bool:
    try:
        verify_sealed_folder(folder)
    except CheckpointError:
        return False
    return True


def _remove_older(newest: Path, keep: int) -> None:
    """Removes older checkpoints only; later ones may be left from before a rollback."""
    up_to_newest = [
        folder
        for folder in checkpoint_folders(newest.parent)
        if _step_of(folder) <= _step_of(newest)
    ]
    for folder in up_to_newest[:-keep]:
        shutil.rmtree(folder, ignore_errors=True)


def _read_info(file: Path) -> CheckpointInfo:
    try:
        content = read_json(file, ("step", "mel_mean", "mel_deviation"))
        so_far = content.pop("so_far", None)
        return CheckpointInfo(**content, so_far=so_far and MetricsSoFar(**so_far))
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None
    # A newer version may write what this one does not know.
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{file}: not a valid checkpoint file ({error})") from None
