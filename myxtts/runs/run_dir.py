"""The folder of a run: the names of its files, its lines and its lock.

RUN/config.yaml  tokenizer.json  shapes.json    configuration of the run; in every checkpoint
    init_from.json                              report of the weights loaded from another run
    metrics.jsonl  measures.jsonl  events/      logged metrics
    samples/  report.json  evaluation/          speech samples and reports
    checkpoints/  best/                         saved weights
    voices/  speakers.safetensors               saved voices; log-mels of the corpus' speakers
    evidence/                                   batches with a non-finite loss
    .lock  .measuring/                          files of the training process
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from platformdirs import user_data_path

from myxtts.config.config import XTTSConfig
from myxtts.config.loading import Change, changes_between
from myxtts.errors import CheckpointError
from myxtts.files import (
    atomic_folder,
    is_text,
    parse_json,
    read_json,
    remove_temporaries,
    write_file,
)
from myxtts.runs.checkpoint import (
    CONFIG,
    FILES_OF_RUN,
    MANIFEST,
    NEEDED_FOR_SYNTHESIS,
    PLAN,
    TOKENIZER,
    Checkpoint,
    checkpoint_folders,
    failures_explained,
    has_checkpoint,
    is_sealed_folder,
    last_saved,
    newest_checkpoint,
    open_checkpoint,
    step_name,
)

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_log = logging.getLogger(__name__)

_MAX_OWNER = 200
# In RUN/evaluation, or in another folder of an evaluation.
EVALUATION_RESULT = "evaluation.json"
# Evaluation of the base model, whose own folder is read-only.
BASE_EVALUATION = Path("base-evaluation")


class _Place:
    """A file or folder of a run, by its name there."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __get__(self, run: RunDir, owner: type[RunDir]) -> Path:
        return run.path.joinpath(*self._names)


@dataclass(frozen=True)
class RunDir(os.PathLike[str]):
    path: Path

    config_file = _Place(CONFIG)
    tokenizer_file = _Place(TOKENIZER)
    plan_file = _Place(PLAN)
    start_report_file = _Place("init_from.json")
    metrics_file = _Place("metrics.jsonl")
    measures_file = _Place("measures.jsonl")
    report_file = _Place("report.json")
    lock_file = _Place(".lock")
    checkpoints = _Place("checkpoints")
    best = _Place("best")
    samples = _Place("samples")
    recording_file = _Place("samples", "recording.wav")
    events = _Place("events")
    evidence = _Place("evidence")
    evaluation = _Place("evaluation")
    voices = _Place("voices")
    speakers_file = _Place("speakers.safetensors")
    measuring = _Place(".measuring")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        object.__setattr__(self, "path", Path(path))

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def around(cls, folder: Path) -> RunDir:
        """Return the run that a run or checkpoint folder belongs to.

        A checkpoint that was copied elsewhere is a run of its own.
        """
        if not is_sealed_folder(folder):
            return cls(folder)
        folder = folder.resolve()
        runs = map(cls, (folder.parent, folder.parent.parent))
        return next((run for run in runs if run.tokenizer_file.is_file()), cls(folder))

    @classmethod
    def newest_in(cls, folder: Path) -> RunDir | None:
        """Return the run in a folder with the latest checkpoint."""
        runs = [run for run in map(cls, folder.glob("*")) if run.checkpoint_folders()]
        return max(runs, key=_last_saved_and_name, default=None)

    @classmethod
    def make_next_in(cls, folder: Path) -> RunDir:
        """Create a run with the next free number."""
        number = 1
        while True:
            try:
                (folder / f"{number:04d}").mkdir(parents=True)
            except FileExistsError:
                number += 1
            else:
                return cls(folder / f"{number:04d}")

    def make(self) -> None:
        """Create the folder to write into; links out of it are refused."""
        self.require_text_name()
        self.path.mkdir(parents=True, exist_ok=True)
        for place in (
            *(self.checkpoints, self.best, self.samples, self.events, self.evidence),
            *(self.evaluation, self.voices, self.measuring),
            *(self.metrics_file, self.measures_file),
        ):
            require_no_link(place)

    def require_folder(self) -> None:
        if not self.path.is_dir():
            raise CheckpointError(f"{self.path}: no such folder; expected a run folder")
        self.require_text_name()

    def require_text_name(self) -> None:
        """Require a name that is valid Unicode, as TensorFlow and reports do."""
        if not is_text(self.path):
            raise CheckpointError(
                f"{self.path}: its name is not UTF-8; use another, or a UTF-8 locale"
            )

    @property
    def holds_a_run(self) -> bool:
        """Whether a run was started here, even if nothing was saved."""
        return self.config_file.exists()

    @property
    def can_start_over(self) -> bool:
        """Whether a run from random weights or the base has no checkpoint yet."""
        start = self.started_from
        return self.holds_a_run and not self.has_saved and (start is None or is_included(start))

    @property
    def started_from(self) -> Path | None:
        """The checkpoint whose weights the run began with; None for random weights."""
        if not self.start_report_file.exists():
            return None
        try:
            return Path(read_json(self.start_report_file, ("checkpoint",))["checkpoint"])
        except ValueError as error:
            raise CheckpointError(f"{self.start_report_file}: damaged ({error})") from None

    @property
    def has_saved(self) -> bool:
        """Whether the folder has a checkpoint to resume or to synthesize with."""
        return bool(self.checkpoint_folders()) or self.best.exists()

    def sample_file(self, step: int) -> Path:
        return self.samples / f"{step_name(step)}.wav"

    def alignment_file(self, step: int) -> Path:
        return self.samples / f"{step_name(step)}_alignment.png"

    def checkpoint_folders(self) -> list[Path]:
        return checkpoint_folders(self.checkpoints)

    def checkpoint_of(self, step: int) -> Path:
        return self.checkpoints / step_name(step)

    def has_checkpoint(self, step: int) -> bool:
        return has_checkpoint(self.checkpoints, step)

    def newest_checkpoint(self, *, for_synthesis: bool = False) -> Checkpoint:
        self.require_folder()
        return newest_checkpoint(self.checkpoints, for_synthesis=for_synthesis)

    def best_checkpoint(self) -> Checkpoint:
        """Return the best checkpoint, verified as far as synthesis needs it."""
        return find_checkpoint(self.best, for_synthesis=True)

    def keep_as_best(self, checkpoint: Path) -> None:
        take_snapshot(checkpoint, self.best)

    def files_for_checkpoints(self) -> dict[str, bytes]:
        """Return the files that every checkpoint contains a copy of."""
        return {name: (self.path / name).read_bytes() for name in FILES_OF_RUN}

    def metric_lines(self) -> list[dict[str, Any]]:
        return read_lines(self.metrics_file)

    def lines_of_training(self) -> list[dict[str, Any]]:
        """Read the lines of a run that has trained; any other folder is an error."""
        self.require_folder()
        lines = self.metric_lines()
        if not lines:
            raise CheckpointError(
                f"{self.path}: {self.metrics_file.name} is missing or empty; expected the folder "
                "of a trained run"
            )
        return lines

    def measure_lines(self) -> list[dict[str, Any]]:
        return read_lines(self.measures_file)

    def drop_lines_after(self, step: int) -> None:
        for file in (self.metrics_file, self.measures_file):
            drop_lines_after(file, step)

    def sync_lines(self) -> None:
        """Sync the lines before a checkpoint: a resumed run restores only the line of its step."""
        for file in (self.metrics_file, self.measures_file):
            sync_lines(file)

    def lock(self) -> AbstractContextManager[None]:
        """Hold the lock that keeps other runs out."""
        require_no_link(self.lock_file)
        return hold_lock(self.lock_file)

    def remove_unfinished(self) -> None:
        """Remove what a killed run left half-written; call it only while holding the lock.

        Voices are written without the lock and are left alone.
        """
        for folder in (self.path, self.checkpoints, self.samples, self.evidence):
            remove_temporaries(folder)


def require_no_link(place: Path) -> None:
    """Raise an error for a link, through which files elsewhere would be changed."""
    if place.is_symlink():
        raise CheckpointError(f"{place}: is a link out of the run; replace it by what it leads to")


def find_checkpoint(folder: str | os.PathLike[str], *, for_synthesis: bool = False) -> Checkpoint:
    """Return the newest intact checkpoint of a run, or of the folder if it is a checkpoint.

    `for_synthesis` prefers the best one, and verifies only the files that synthesis needs.
    """
    folder = Path(folder)
    if is_sealed_folder(folder):
        return open_checkpoint(folder, for_synthesis=for_synthesis)
    run = RunDir(folder)
    if for_synthesis and is_sealed_folder(run.best):
        try:
            return run.best_checkpoint()
        except CheckpointError as error:
            _log.warning("%s; trying the newest checkpoint instead", error)
    return run.newest_checkpoint(for_synthesis=for_synthesis)


def _last_saved_and_name(run: RunDir) -> tuple[float, str]:
    return last_saved(run.checkpoints), run.path.name


def take_snapshot(checkpoint: Path, target: Path) -> Path:
    """Link the checkpoint without its training state as `target`, replacing it."""
    with failures_explained(target), atomic_folder(target, replace=True, durable=True) as part:
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


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Read complete lines, if there are any; a run may still be writing the last one."""
    parsed = []
    for number, line in enumerate(_whole_lines(file), 1):
        try:
            parsed.append(parse_json(line, ("step",)))
        except ValueError as error:
            raise CheckpointError(
                f"{file}:{number}: not a line of a run ({error}); remove that line"
            ) from None
    return parsed


def drop_lines_after(file: Path, step: int) -> None:
    """Remove the lines of the steps since a checkpoint, which a resumed run repeats.

    A half-written line, as after a power failure, is removed too. So are lines that no run has
    written, with a warning.
    """
    kept, problems = [], []
    for number, line in enumerate(_whole_lines(file), 1):
        try:
            if parse_json(line, ("step",))["step"] <= step:
                kept.append(line)
        except ValueError as error:
            problems.append(f"{file}:{number}: not a line of a run ({error})")
    if problems:
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        _log.warning("%s%s: removed", problems[0], more)
    if file.is_file():
        write_file(file, b"".join(kept))


def append_line(file: Path, step: int, values: dict[str, float | None]) -> None:
    """Append the whole line or, on a full disk, nothing of it."""
    line = json.dumps({"step": step, **values}).encode() + b"\n"
    with open(file, "ab", buffering=0) as stream:
        size = stream.seek(0, os.SEEK_END)
        if stream.write(line) != len(line):
            stream.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))


def sync_lines(file: Path) -> None:
    """Make the lines so far survive a power failure, where the file system can do that."""
    with contextlib.suppress(OSError), open(file, "rb") as stream:
        os.fsync(stream.fileno())


def _whole_lines(file: Path) -> list[bytes]:
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None
    return [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]


@contextlib.contextmanager
def hold_lock(file: Path) -> Iterator[None]:
    """Lock the folder of a file; a CheckpointError if another run holds the lock.

    A killed process loses its lock. On systems and file systems without locks there is none.
    """
    try:
        stream = open(file, "a+")  # noqa: SIM115 - closed below
    except OSError as error:
        raise CheckpointError(
            f"{file}: cannot be used as the lock of the run ({error.strerror}); remove it if no "
            "other run uses this folder"
        ) from None
    with stream:
        try:
            if fcntl is not None:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            owner = stream.read(_MAX_OWNER).strip() or "an unknown process"
            raise CheckpointError(
                f"{file.parent}: is in use by another run, {owner}; wait for it, or use another "
                "--run-dir"
            ) from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
        # On a full disk the lock still works; only the name of its owner is missing.
        with contextlib.suppress(OSError):
            stream.truncate(0)
            stream.write(f"process {os.getpid()} on {socket.gethostname()}")
            stream.flush()
        try:
            yield
        finally:
            # The file stays: deleting it could remove the lock of the next run.
            stream.truncate(0)


def changes_since(checkpoint: Checkpoint, config: XTTSConfig) -> list[Change]:
    """Return settings that differ from a checkpoint's; one that breaks its model is an error."""
    changes = changes_between(checkpoint.recorded_config(), config)
    for change in changes:
        if change.breaks_the_model:
            raise CheckpointError(
                f"{checkpoint.folder}: does not match this configuration: {change.name} is "
                f"{change.given}, but the model was trained with {change.saved}; change it back, "
                "or start a new run"
            )
    return changes


def require_length(checkpoint: Checkpoint, steps: int) -> None:
    """Refuse a length that the run has passed already."""
    if checkpoint.info.step > steps:
        raise CheckpointError(
            f"{RunDir.around(checkpoint.folder)}: has already trained {checkpoint.info.step} "
            f"steps, and its length is {steps}; raise --max-steps or --epochs"
        )


def add_seconds(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Add two time accounts, over the buckets of both."""
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in {**one, **other}}


# Stands for a run folder; a folder of this name takes precedence.
BASE = "base"
VOCODER = "vocoder"
_WEIGHTS = Path(str(resources.files("myxtts") / "weights"))
_INCLUDED = _WEIGHTS / BASE
INCLUDED_VOCODER = _WEIGHTS / VOCODER


def run_or_base(run: str | Path | None) -> Path:
    """Return the folder of a run; None and "base" mean the included base model."""
    if run is not None and (str(run) != BASE or Path(run).is_dir()):
        return Path(run)
    if not _INCLUDED.is_dir():
        raise CheckpointError(
            "this installation includes no base model; give the folder of a trained run"
        )
    return _INCLUDED


def run_to_start_from(run: str | Path) -> Path:
    """Return the folder of a run; "base" and "vocoder" mean the included models."""
    if str(run) == VOCODER and not Path(run).is_dir():
        return INCLUDED_VOCODER
    return run_or_base(run)


def user_folder() -> Path:
    """Return the folder for what users add to the included base model."""
    return user_data_path("myxtts")


def is_included(run: Path) -> bool:
    """Return whether a folder is that of the included base model."""
    return run.resolve() == _INCLUDED.resolve()


def model_name(run: Path) -> str:
    """Return the name to show: the installation path of the base is of no interest."""
    return "the base model" if run == _INCLUDED else str(run)
