"""The report of a run: report.json, and the return value of training."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.files import read_json
from myxtts.runs.run_dir import RunDir

RUNNING, COMPLETE, STOPPED_EARLY, INTERRUPTED = (
    "running",
    "complete",
    "stopped early",
    "interrupted",
)


@dataclass(frozen=True, kw_only=True)
class RunReport:
    run_dir: Path
    state: str
    """running, complete, stopped early or interrupted."""
    interrupted_by: str | None
    """The signal that ended it before it was complete, such as SIGTERM."""
    planned_steps: int
    steps: int
    traces: int
    compilations: int
    compilations_after_warmup: int
    valid_frame_ratio: float
    """Real mel frames over computed ones."""
    valid_work_ratio: float
    """The same, weighted by the cost of each part of the model."""
    useful_utilisation: float
    """Fraction of the wall time in which the device computed, times `valid_work_ratio`."""
    steady_utilisation: float
    """The same over the steps alone, without start-up, evaluations and checkpoints."""
    seconds: dict[str, float]
    """By bucket of the time account, and their sum as `wall`."""
    shapes: list[list[int]]
    """Batch, tokens and frames of each."""
    rejected: dict[str, int]
    """Number of clips left out, by reason."""
    mode: str
    strategy: str
    data_device: str
    model_devices: list[str]
    buffer_size: int
    buffer_size_at_end: int
    peak_memory_mb: dict[str, int]
    gpus: dict[str, Any]
    best: dict[str, Any] | None
    """Metric, step and value of the best checkpoint."""
    advice: list[str]

    @classmethod
    def read(cls, run_dir: RunDir) -> RunReport | None:
        """The report of a run, or None if it has none that this version reads."""
        try:
            return cls(run_dir=run_dir.path, **read_json(run_dir.report_file))
        except (OSError, ValueError, TypeError):
            return None

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing left to train."""
        return self.state in (COMPLETE, STOPPED_EARLY)

    def as_json(self) -> dict[str, Any]:
        """Without the path of the run folder, which may be moved."""
        content = dataclasses.asdict(self)
        del content["run_dir"]
        return content
