"""The folder of a run: every name in it, and where to find its parts.

RUN/config.yaml  tokenizer.json  shapes.json    what the run was started with; in every checkpoint
    init_from.json                              what it loaded from another run's weights
    details.txt                                 shapes and settings in words
    metrics.jsonl  measures.jsonl  events/      logged metrics
    samples/  report.json  evaluation/          speech samples and reports
    checkpoints/  best/                         saved weights
    voices/                                     voices encoded with its weights
    evidence/                                   batches with a non-finite loss
    .lock  .measuring/                          files of the training process

Knows names and places. The modules next to this one know how checkpoints, lines and locks are read
and written. The names in a checkpoint are in `checkpoints`.
"""

from __future__ import annotations

import logging
import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.errors import CheckpointError
from myxtts.runs import checkpoints
from myxtts.runs.checkpoints import CONFIG, FILES_OF_RUN, PLAN, TOKENIZER, Checkpoint, step_name
from myxtts.runs.lines import drop_lines_after, read_lines, sync_lines
from myxtts.runs.lock import hold_lock
from myxtts.runs.sealed_folder import is_sealed_folder
from myxtts.runs.snapshots import take_snapshot
from myxtts.whole_files import remove_temporaries
from myxtts.wording import is_text

_log = logging.getLogger(__name__)

# In RUN/evaluation, or wherever else an evaluation is written.
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
        """The run that a run or checkpoint folder belongs to: itself, or the run that contains it.

        RUN/best and checkpoints come and go; their run stays. A copy elsewhere is its own run.
        """
        if not is_sealed_folder(folder):
            return cls(folder)
        folder = folder.resolve()
        runs = map(cls, (folder.parent, folder.parent.parent))
        return next((run for run in runs if run.tokenizer_file.is_file()), cls(folder))

    @classmethod
    def newest_in(cls, folder: Path) -> RunDir | None:
        """The run in a folder with the latest checkpoint."""
        runs = [run for run in map(cls, folder.glob("*")) if run.checkpoint_folders()]
        return max(runs, key=_last_saved_and_name, default=None)

    @classmethod
    def make_next_in(cls, folder: Path) -> RunDir:
        """A new run with the next free number."""
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
        """TensorFlow takes no other names, and neither do reports."""
        if not is_text(self.path):
            raise CheckpointError(
                f"{self.path}: its name is not UTF-8; use another, or a UTF-8 locale"
            )

    @property
    def holds_a_run(self) -> bool:
        """Whether a run was started here, even if it saved nothing."""
        return self.config_file.exists()

    @property
    def has_saved(self) -> bool:
        """Whether a run here can be resumed or can speak."""
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
    def details_file(self) -> Path:
        return self.path / "details.txt"

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
        return checkpoints.checkpoint_folders(self.checkpoints)

    def checkpoint_of(self, step: int) -> Path:
        return self.checkpoints / step_name(step)

    def has_checkpoint(self, step: int) -> bool:
        return checkpoints.has_checkpoint(self.checkpoints, step)

    def newest_checkpoint(self, *, for_synthesis: bool = False) -> Checkpoint:
        self.require_folder()
        return checkpoints.newest_checkpoint(self.checkpoints, for_synthesis=for_synthesis)

    def best_checkpoint(self) -> Checkpoint:
        """Verified as far as synthesis needs it."""
        return find_checkpoint(self.best, for_synthesis=True)

    def keep_as_best(self, checkpoint: Path) -> None:
        take_snapshot(checkpoint, self.best)

    def files_for_checkpoints(self) -> dict[str, bytes]:
        """Files that every checkpoint contains a copy of."""
        return {name: (self.path / name).read_bytes() for name in FILES_OF_RUN}

    def metric_lines(self) -> list[dict[str, Any]]:
        return read_lines(self.metrics_file)

    def lines_of_training(self) -> list[dict[str, Any]]:
        """The lines of a run that has trained; any other folder is an error."""
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
        """Before a checkpoint: a resumed run can make up only the line of its step."""
        for file in (self.metrics_file, self.measures_file):
            sync_lines(file)

    def lock(self) -> AbstractContextManager[None]:
        """Keeps other runs out while held."""
        require_no_link(self.lock_file)
        return hold_lock(self.lock_file)

    def remove_unfinished(self) -> None:
        """Removes what a killed run left half-written; call it only while holding the lock.

        Voices are written without the lock and are left alone.
        """
        for folder in (self.path, self.checkpoints, self.samples, self.evidence):
            remove_temporaries(folder)


def require_no_link(place: Path) -> None:
    """Raise an error for a link: through it, files elsewhere would be written and removed."""
    if place.is_symlink():
        raise CheckpointError(f"{place}: is a link out of the run; replace it by what it leads to")


def find_checkpoint(folder: str | os.PathLike[str], *, for_synthesis: bool = False) -> Checkpoint:
    """The newest intact checkpoint of a run, or the folder itself if it is a checkpoint.

    `for_synthesis` prefers the best one, and verifies only the files that synthesis needs.
    """
    folder = Path(folder)
    if is_sealed_folder(folder):
        return checkpoints.open_checkpoint(folder, for_synthesis=for_synthesis)
    run = RunDir(folder)
    if for_synthesis and is_sealed_folder(run.best):
        try:
            return run.best_checkpoint()
        except CheckpointError as error:
            _log.warning("%s; trying the newest checkpoint instead", error)
    return run.newest_checkpoint(for_synthesis=for_synthesis)


def _last_saved_and_name(run: RunDir) -> tuple[float, str]:
    return checkpoints.last_saved(run.checkpoints), run.path.name
