"""The folder of a run: the names of its files, its lines and its lock.

RUN/config.yaml  tokenizer.json  shapes.json    configuration of the run; in every checkpoint
    init_from.json                              report of the weights loaded from another run
    metrics.jsonl  measures.jsonl  events/      logged metrics
    samples/  report.json  evaluation/          speech samples and reports
    checkpoints/  best/                         saved weights
    voices/                                     voices encoded with its weights
    evidence/                                   batches with a non-finite loss
    .lock  .measuring/                          files of the training process

`checkpoint` reads and writes the checkpoints.
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
from typing import IO, Any

from myxtts.config.config import XTTSConfig
from myxtts.config.loading import Change, changes_between
from myxtts.errors import CheckpointError
from myxtts.files import atomic_folder, is_text, parse_json, remove_temporaries, write_file
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

_log = logging.getLogger(__name__)

# In RUN/evaluation, or in another folder of an evaluation.
EVALUATION_RESULT = "evaluation.json"


@dataclass(frozen=True)
class RunDir(os.PathLike[str]):
    path: Path

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
        """Whether a run that began with random weights was stopped before its first checkpoint."""
        return self.holds_a_run and not self.has_saved and not self.start_report_file.exists()

    @property
    def has_saved(self) -> bool:
        """Whether the folder has a checkpoint to resume or to synthesize with."""
        return bool(self.checkpoint_folders()) or self.best.exists()

    @property
    def config_file(self) -> Path:
        return self.path / CONFIG

    @property
    def tokenizer_file(self) -> Path:
        return self.path / TOKENIZER

    @property
    def plan_file(self) -> Path:
        return self.path / PLAN

    @property
    def start_report_file(self) -> Path:
        return self.path / "init_from.json"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def measures_file(self) -> Path:
        return self.path / "measures.jsonl"

    @property
    def report_file(self) -> Path:
        return self.path / "report.json"

    @property
    def lock_file(self) -> Path:
        return self.path / ".lock"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def best(self) -> Path:
        return self.path / "best"

    @property
    def samples(self) -> Path:
        return self.path / "samples"

    @property
    def events(self) -> Path:
        return self.path / "events"

    @property
    def evidence(self) -> Path:
        return self.path / "evidence"

    @property
    def evaluation(self) -> Path:
        return self.path / "evaluation"

    @property
    def evaluation_file(self) -> Path:
        return self.evaluation / EVALUATION_RESULT

    @property
    def voices(self) -> Path:
        return self.path / "voices"

    @property
    def measuring(self) -> Path:
        return self.path / ".measuring"

    def sample_file(self, step: int) -> Path:
        return self.samples / f"{step_name(step)}.wav"

    @property
    def recording_file(self) -> Path:
        return self.samples / "recording.wav"

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
    return _all_parsed(file, _whole_lines(file))


def drop_lines_after(file: Path, step: int) -> None:
    """Remove the lines of the steps since a checkpoint, which a resumed run repeats.

    A half-written line, as after a power failure, is removed too. So are lines that no run has
    written, with a warning.
    """
    kept, problems = [], []
    for number, line in enumerate(_whole_lines(file), 1):
        try:
            if _parsed(line)["step"] <= step:
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
        return _whole(file.read_bytes())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unreadable(file, error) from None


def _whole(content: bytes) -> list[bytes]:
    return [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]


def _unreadable(file: Path, error: OSError) -> CheckpointError:
    return CheckpointError(f"{file}: cannot be read ({error.strerror})")


def _all_parsed(file: Path, lines: list[bytes]) -> list[dict[str, Any]]:
    parsed = []
    for number, line in enumerate(lines, 1):
        try:
            parsed.append(_parsed(line))
        except ValueError as error:
            raise CheckpointError(
                f"{file}:{number}: not a line of a run ({error}); remove that line"
            ) from None
    return parsed


def _parsed(line: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = parse_json(line, ("step",))
    return parsed


try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def hold_lock(file: Path) -> Iterator[None]:
    """Lock the folder of the file; raises a CheckpointError if another run holds the lock."""
    with _opened(file) as stream:
        owner = _read_owner(stream)
        if _is_held(stream, owner):
            raise CheckpointError(
                f"{file.parent}: is in use by another run, {_describe(owner)}; wait for it, or use "
                "another --run-dir"
            )
        if owner:
            _log.info("%s: taking over the stale lock of %s", file, _describe(owner))
        _write(stream, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        try:
            yield
        finally:
            # The file stays: deleting it could remove the lock of the next run.
            _write(stream, "")


def _opened(file: Path) -> IO[bytes]:
    try:
        return open(file, "ab+", buffering=0)
    except OSError as error:
        raise CheckpointError(
            f"{file}: cannot be used as the lock of the run ({error.strerror}); remove it if no "
            "other run uses this folder"
        ) from None


def _is_held(stream: IO[bytes], owner: dict[str, Any]) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
        else:
            return False
    return bool(owner) and not _is_gone(owner)


def _is_gone(owner: dict[str, Any]) -> bool:
    """Return whether the owner has ended, which is only known of processes on this machine."""
    if owner["host"] != socket.gethostname():
        return False
    if owner["pid"] == os.getpid():  # containers reuse process ids
        return True
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except OSError:  # it exists and belongs to another user
        return False
    return False


def _describe(owner: dict[str, Any]) -> str:
    return f"process {owner['pid']} on {owner['host']}" if owner else "an unknown process"


def _read_owner(stream: IO[bytes]) -> dict[str, Any]:
    """Read process id and host, or return an empty dict."""
    stream.seek(0)
    with contextlib.suppress(ValueError, TypeError, KeyError):
        found = json.loads(stream.read())
        return {"pid": int(found["pid"]), "host": str(found["host"])}
    return {}


def _write(stream: IO[bytes], text: str) -> None:
    # On a full disk the lock still works; only the name of its owner is missing.
    with contextlib.suppress(OSError):
        stream.truncate(0)
        stream.write(text.encode())
        stream.flush()


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


def require_length(run: RunDir, checkpoint: Checkpoint, steps: int) -> None:
    """Raise an error if the run would become shorter than it already is."""
    if checkpoint.info.step > steps:
        raise CheckpointError(
            f"{run}: has already trained {checkpoint.info.step} steps, and its length is {steps}; "
            "raise --max-steps or --epochs"
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
INCLUDED_VOICES = ("adam", "callie", "emma", "heart", "liam")
"""Voices of the base model, in lower case."""


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


def is_included(run: Path) -> bool:
    """Return whether a folder is that of the included base model."""
    return run.resolve() == _INCLUDED.resolve()


def model_name(run: Path) -> str:
    """Return the name to show: the installation path of the base is of no interest."""
    return "the base model" if run == _INCLUDED else str(run)
