"""Checkpoints: checksummed folders. Nothing in them is pickled, so no file runs code.

RUN/checkpoints/step_00000100/
    model.safetensors                          EMA weights
    training.safetensors                       the rest of the optimizer's state
    checkpoint.json                            `CheckpointInfo`
    config.yaml  tokenizer.json  shapes.json   copies of the files of the run
    manifest.json                              size and SHA-256 of every other file
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
from safetensors.numpy import save_file

from myxtts.config.config import XTTSConfig
from myxtts.config.loading import load_config_of_run, read_layer_for_resuming
from myxtts.errors import CheckpointError
from myxtts.files import (
    MoveError,
    atomic_folder,
    parse_json,
    read_json,
    remove_folder,
    sync_stream,
)
from myxtts.text.tokenizer import Tokenizer

_log = logging.getLogger(__name__)

Tensors = dict[str, npt.NDArray[Any]]
Shapes = dict[str, tuple[int, ...]]
Content = bytes | Tensors

MANIFEST = "manifest.json"
CONFIG, TOKENIZER, PLAN = "config.yaml", "tokenizer.json", "shapes.json"
# Files that a run folder and each of its checkpoints have under the same name.
FILES_OF_RUN = (CONFIG, TOKENIZER, PLAN)
_MODEL, _TRAINING, _INFO = "model.safetensors", "training.safetensors", "checkpoint.json"
NEEDED_FOR_SYNTHESIS = (_MODEL, _INFO, CONFIG, TOKENIZER)
_FORMAT, _VERSION = "myxtts-checkpoint", 1
_NAME = re.compile(r"step_(\d{8,18})")
_EMA = "average/"
_SYSTEM_ERROR = re.compile(r"os error (\d+)")
# Allowance for the manifest, directories and partly filled blocks.
_SPARE_BYTES = 1 << 20
_LOWEST_PRIORITY = 19


def write_sealed_folder(folder: Path, files: Mapping[str, Content]) -> None:
    """Write all files and rename them into place as one, replacing an existing folder."""
    with failures_explained(folder):
        missing = _missing_bytes(folder.parent, files)
        if missing > 0:
            raise CheckpointError(
                f"{folder}: not enough disk space; free another {missing / 1e6:.1f} MB, or lower "
                "saving.keep_checkpoints"
            )
        with atomic_folder(folder, replace=True, durable=True) as part:
            entries = {name: _write(part / name, content) for name, content in files.items()}
            manifest = {"format": _FORMAT, "version": _VERSION, "files": entries}
            _write(part / MANIFEST, _sealed(manifest))


@contextlib.contextmanager
def failures_explained(folder: Path) -> Iterator[None]:
    """Turn an OSError from writing a folder of a run into a CheckpointError."""
    try:
        yield
    except MoveError as error:
        raise CheckpointError(
            f"{folder}: was written but cannot be renamed into place ({_reason(error)}); use a "
            "file system that can rename folders, with --run-dir DIR"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be written ({_reason(error)})") from None


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{error.strerror}; free some space, or use another --run-dir DIR"
    return error.strerror or str(error)


def _missing_bytes(folder: Path, files: Mapping[str, Content]) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    needed = _SPARE_BYTES
    for content in files.values():
        if isinstance(content, bytes):
            needed += len(content)
        else:
            needed += sum(value.nbytes for value in content.values())
    return needed - shutil.disk_usage(folder).free


def _write(file: Path, content: Content) -> dict[str, Any]:
    """Write and sync a file, and return its entry in the manifest."""
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        try:
            save_file({name: np.asarray(it, order="C") for name, it in content.items()}, file)
        except safetensors.SafetensorError as error:
            if found := _SYSTEM_ERROR.search(str(error)):
                number = int(found[1])
                raise OSError(number, os.strerror(number), str(file)) from None
            raise
    with open(file, "rb+") as stream:
        sync_stream(stream)
    return _entry_of(file)


def _entry_of(file: Path) -> dict[str, Any]:
    with open(file, "rb") as stream:
        checksum = hashlib.file_digest(stream, "sha256").hexdigest()
        return {"bytes": stream.tell(), "sha256": checksum}


def _sealed(manifest: dict[str, Any]) -> bytes:
    seal = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    return json.dumps({**manifest, "seal": seal}, indent=1).encode()


def _read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    file = folder / MANIFEST
    try:
        written = file.read_bytes()
        content = parse_json(written, ("format", "version", "files", "seal"))
        if content["format"] != _FORMAT:
            raise ValueError("unknown format")
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']}, this program reads {_VERSION}")
        # Serialized again it must be the same, byte for byte.
        del content["seal"]
        if _sealed(content) != written:
            raise ValueError("damaged, checksum mismatch")
        return {name: dict(entry) for name, entry in content["files"].items()}
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{file}: not a checkpoint that this version reads ({error})"
        ) from None


def is_sealed_folder(folder: Path) -> bool:
    """Return whether it has a manifest, without verifying it."""
    return (folder / MANIFEST).is_file()


def verify_sealed_folder(folder: Path, names: Iterable[str] | None = None) -> None:
    """Compare the named files, or all, with their checksums; a difference is an error."""
    entries = _read_manifest(folder)
    for name in entries if names is None else names:
        if name not in entries:
            raise CheckpointError(f"{folder}: {name} is not part of it")
        try:
            found = _entry_of(folder / name)
        except OSError as error:
            raise CheckpointError(f"{folder / name}: cannot be read ({error.strerror})") from None
        if found != entries[name]:
            raise CheckpointError(f"{folder / name}: damaged, checksum mismatch")


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Any]:
    try:
        with safetensors.safe_open(file, "numpy") as tensors:
            yield tensors
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{file}: cannot be read ({error})") from None


def _read_tensors(file: Path, names: Iterable[str] | None = None) -> Tensors:
    with _opened(file) as tensors:
        wanted = tensors.keys() if names is None else names
        return {name: tensors.get_tensor(name) for name in wanted}


@dataclass(frozen=True)
class MetricsSoFar:
    """Metrics of the steps so far, for the next line of metrics.jsonl and the report.

    `frames` and `work` are pairs: real and computed.
    """

    steps: int = 0
    """Losses since the last line."""
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
        """Read all EMA weights, or the named ones."""
        return _read_tensors(self.folder / _MODEL, names)

    def ema_shapes(self) -> Shapes:
        """Read the shapes from the header alone."""
        with _opened(self.folder / _MODEL) as tensors:
            return {it: tuple(tensors.get_slice(it).get_shape()) for it in tensors.keys()}  # noqa: SIM118

    def require_shapes(self, variables: Iterable[Any]) -> None:
        """Raise an error unless the EMA weights fit a model; reads only their header.

        The variables need no values: a configuration may declare a model that does not fit into
        memory.
        """
        shapes = self.ema_shapes()
        for variable in variables:
            if shapes.get(variable.path) != tuple(variable.shape):
                raise CheckpointError(
                    f"{self.folder}: {variable.path} is missing, or its shape does not match "
                    "config.yaml"
                )

    def weights_checksum(self) -> str:
        """Return an id of these EMA weights that is equal for every copy."""
        return str(_read_manifest(self.folder)[_MODEL]["sha256"])

    def training_state(self) -> Tensors:
        """Read the state of the optimizer; EMA weights are stored once, in the model file."""
        ema = {f"{_EMA}{name}": value for name, value in self.ema_weights().items()}
        return _read_tensors(self.folder / _TRAINING) | ema

    @property
    def config_file(self) -> Path:
        return self.folder / CONFIG

    @property
    def plan_file(self) -> Path:
        return self.folder / PLAN

    def config(self) -> XTTSConfig:
        """Return the configuration without paths: a run must not name folders of this machine."""
        return XTTSConfig(**read_layer_for_resuming(self.config_file))

    def recorded_config(self) -> XTTSConfig:
        """Return the configuration as it was recorded, to compare it and to show it."""
        return load_config_of_run(self.config_file)

    def tokenizer(self) -> Tokenizer:
        return Tokenizer.load(self.folder / TOKENIZER)


def step_name(step: int) -> str:
    """Return the name of a step's files and folders."""
    return f"step_{step:08d}"


def save_checkpoint(
    store: Path,
    info: CheckpointInfo,
    training_state: Tensors,
    files_of_run: Mapping[str, bytes],
    keep: int,
) -> Path:
    """Write a checkpoint and, once it is complete, remove all but the newest `keep`."""
    folder = store / step_name(info.step)
    # Runs are deterministic, so a step always has the same state.
    if not _is_intact(folder):
        model: Tensors = {}
        rest: Tensors = {}
        for name, value in training_state.items():
            is_ema = name.startswith(_EMA)
            (model if is_ema else rest)[name.removeprefix(_EMA)] = value
        facts = json.dumps(asdict(info), indent=1).encode()
        content: dict[str, Content] = {**files_of_run, _MODEL: model, _TRAINING: rest, _INFO: facts}
        _make_room(store, content)
        write_sealed_folder(folder, content)
    _remove_older(folder, keep)
    return folder


def open_checkpoint(folder: Path, *, for_synthesis: bool = False) -> Checkpoint:
    """Verify and open a checkpoint; `for_synthesis` checks only the files that synthesis needs."""
    verify_sealed_folder(folder, NEEDED_FOR_SYNTHESIS if for_synthesis else None)
    return Checkpoint(folder, _read_info(folder / _INFO))


def newest_checkpoint(store: Path, *, for_synthesis: bool = False) -> Checkpoint:
    """Return the newest intact checkpoint; damaged ones are skipped with a warning."""
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
    """Return all checkpoints, oldest first, intact or not."""
    found = store.glob("step_*")
    return sorted(
        (path for path in found if _NAME.fullmatch(path.name) and not path.is_symlink()),
        key=_step_of,
    )


def last_saved(store: Path) -> float:
    """Return the time of the latest checkpoint, or 0."""
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


def _make_room(store: Path, files: Mapping[str, Content]) -> None:
    """Give up old checkpoints on a full disk, but never the newest intact one."""
    with failures_explained(store):
        if _missing_bytes(store, files) <= 0:
            return
        for folder in list(filter(_is_intact, checkpoint_folders(store)))[:-1]:
            _log.warning("%s: removed, because the disk is full", folder)
            remove_folder(folder)
            if _missing_bytes(store, files) <= 0:
                return


def _remove_older(newest: Path, keep: int) -> None:
    """Remove older checkpoints only; later ones may be left from before a rollback."""
    up_to_newest = [
        folder
        for folder in checkpoint_folders(newest.parent)
        if _step_of(folder) <= _step_of(newest)
    ]
    for folder in up_to_newest[:-keep]:
        remove_folder(folder)


def _read_info(file: Path) -> CheckpointInfo:
    try:
        content = read_json(file, ("step", "mel_mean", "mel_deviation"))
        so_far = content.pop("so_far", None)
        return CheckpointInfo(**content, so_far=so_far and MetricsSoFar(**so_far))
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None
    # A newer version may write unknown fields.
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{file}: not a valid checkpoint file ({error})") from None


class CheckpointWriter:
    """Saves checkpoints while training continues: one thread, one checkpoint at a time.

    A full disk is a warning, and the next checkpoint tries again. It is an error only at the end of
    the run.
    """

    def __init__(
        self,
        store: Path,
        files_of_run: Mapping[str, bytes],
        keep: int,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Write in the background; `before` is called in the thread before each checkpoint."""
        self._store = store
        self._files_of_run = files_of_run
        self._keep = keep
        self._before = before
        self._thread = ThreadPoolExecutor(1, "checkpoints", initializer=_lower_priority)
        self._pending: Future[Path] | None = None

    def __enter__(self) -> CheckpointWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        try:
            # An error that is already being raised takes precedence.
            with contextlib.suppress(*([CheckpointError] if kind is not None else [])):
                self.wait()
        finally:
            self._thread.shutdown()

    def save(self, info: CheckpointInfo, training_state: Tensors) -> None:
        """Start writing, after the previous checkpoint is done. The arrays must not change."""
        with contextlib.suppress(CheckpointError):  # already logged as a warning
            self.wait()
        self._pending = self._thread.submit(self._write, info, training_state)

    def wait(self) -> Path | None:
        """Return the last checkpoint, once it is complete; raise the error if it failed."""
        return self._pending.result() if self._pending is not None else None

    def _write(self, info: CheckpointInfo, training_state: Tensors) -> Path:
        self._before()
        try:
            return save_checkpoint(
                self._store, info, training_state, self._files_of_run, self._keep
            )
        except CheckpointError as error:
            _log.warning("step %d was not saved: %s", info.step, error)
            raise


def _lower_priority() -> None:
    """Give this thread the lowest priority, so that it does not slow the training step."""
    if sys.platform == "linux":  # elsewhere priorities apply to whole processes
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
