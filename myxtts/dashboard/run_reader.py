"""Reads what the page shows of a run, from the files in its folder and from nothing else.

Nothing in the folder is trusted: files are read by the readers that check them, and a file that
cannot be used is named on the page instead of what it would have shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from myxtts.config.config import XTTSConfig
from myxtts.config.loading import load_config
from myxtts.dashboard.samples import list_samples
from myxtts.dashboard.thinning import averaged, ends_of_averaged, thinned
from myxtts.errors import CheckpointError, MyXTTSError
from myxtts.evaluation.history import METRICS, TrainingClock, read_evaluation
from myxtts.json_files import read_json
from myxtts.runs.lines import FollowedLines
from myxtts.runs.run_dir import RunDir
from myxtts.training.watching.accounting import BUCKETS
from myxtts.training.watching.report import RUNNING
from myxtts.wording import printable

Result = TypeVar("Result")
Line = dict[str, Any]

_LOSS = re.compile(r"(validation_)?([a-z0-9_]{1,40}_)?loss|validation_mel_distance", re.ASCII)
_MOST_LOSSES = 32
_SPEECH_METRICS = tuple(metric.name for metric in METRICS if not _LOSS.fullmatch(metric.name))
_OTHER_CURVES = (
    *("useful_utilisation", "steady_utilisation", "valid_frame_ratio"),
    *("buffer_batches", "buffer_size", "traces", "compilations", "compilations_after_warmup"),
    *("step_seconds", "data_wait_seconds", "learning_rate", "gradient_norm"),
)
_FACTS = (
    *("mode", "strategy", "data_device", "model_devices"),
    *("useful_utilisation", "compilations_after_warmup"),
)
_LARGEST = 1e30
_LONGEST_STEP_SECONDS = 1e6
_MOST_ADVICE = 20
_MOST_CHARACTERS = 500
_WITHOUT_PROCESS = "stopped"


class RunReader:
    """One run, read again whenever one of its files has changed."""

    def __init__(self, folder: Path, name: str) -> None:
        self.run = RunDir(folder)
        self.name = name
        self._metrics = FollowedLines(self.run.metrics_file)
        self._measures = FollowedLines(self.run.measures_file)
        self._seen: object = None
        self._content: dict[str, Any] = {}

    def require_run(self) -> None:
        """Before anything is shown; a run that has just begun need not have trained."""
        self.run.require_folder()
        if not (self.run.holds_a_run or self.run.metrics_file.exists()):
            raise CheckpointError(
                f"{self.run}: has neither {self.run.config_file.name} nor "
                f"{self.run.metrics_file.name}; expected the folder of a run"
            )

    def read(self) -> dict[str, Any]:
        # Taken before reading: what changes in between is read again the next time.
        state = (*map(_status_of, self._files()), self.run.is_in_use())
        if state != self._seen:
            self._content, self._seen = self._read(), state
        return self._content

    def _files(self) -> Iterable[Path]:
        run = self.run
        yield from (run.config_file, run.metrics_file, run.measures_file, run.report_file)
        yield from (run.evaluation_file, run.samples)

    def _read(self) -> dict[str, Any]:
        problems: list[str] = []
        report = self._report(problems)
        content: dict[str, Any] = {
            "name": printable(self.name),
            "path": printable(str(self.run)),
            "state": self._state(report),
            "step": report.get("steps", 0),
            "planned_steps": report.get("planned_steps") or self._planned_steps(problems),
            "hours": 0.0,
            "updated": None,
            "facts": _facts(report),
            "best": report.get("best"),
            "seconds": _seconds(report),
            "advice": _shortened(report.get("advice", [])[:_MOST_ADVICE]),
            "curves": {},
            "account": None,
            "recordings": {},
            "samples": list_samples(self.run),
        }
        lines = _tried(self._metrics.read, problems) or []
        measured = _tried(self._measures.read, problems) or []
        evaluation = _tried(lambda: read_evaluation(self.run), problems)
        if lines:
            spoken = [*measured, *([evaluation.as_line] if evaluation else [])]
            content |= _progress(lines, spoken, report)
        if evaluation:
            content["recordings"] = {
                name: mean for name, mean in evaluation.ceiling.items() if name in _SPEECH_METRICS
            }
        content["problems"] = _shortened(dict.fromkeys(problems))
        return content

    def _report(self, problems: list[str]) -> dict[str, Any]:
        try:
            report: dict[str, Any] = read_json(self.run.report_file)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError) as error:
            problems.append(f"{self.run.report_file}: cannot be used ({error})")
            return {}
        return report

    def _planned_steps(self, problems: list[str]) -> int | None:
        """Before the first report."""
        try:
            config: XTTSConfig = load_config(self.run.config_file)
        except MyXTTSError as error:
            problems.append(str(error))
            return None
        return config.training.max_steps

    def _state(self, report: dict[str, Any]) -> str:
        if self.run.is_in_use():
            return RUNNING
        state: str = report.get("state", _WITHOUT_PROCESS)
        # The report says so until the end; a killed run could not change it.
        return _WITHOUT_PROCESS if state == RUNNING else state[:_MOST_CHARACTERS]


def names_of(folders: Sequence[Path]) -> list[str]:
    """Short names of runs: that of the folder, with the path where two are called the same."""
    short = [folder.resolve().name for folder in folders]
    return [
        name if short.count(name) == 1 and name else str(folder)
        for folder, name in zip(folders, short, strict=True)
    ]


def _progress(
    lines: Sequence[Line], measured: Sequence[Line], report: dict[str, Any]
) -> dict[str, Any]:
    clock = TrainingClock([_with_sane_times(line) for line in lines])
    last = max(line["step"] for line in lines)
    losses = sorted({name for line in lines for name in line if _LOSS.fullmatch(name)})
    curves = {name: _curve(lines, name, clock) for name in losses[:_MOST_LOSSES]}
    curves |= {name: _curve([*lines, *measured], name, clock) for name in _SPEECH_METRICS}
    curves |= {name: _curve(lines, name, clock) for name in _OTHER_CURVES}
    return {
        "step": max(last, report.get("steps", 0)),
        "hours": clock.hours_at(last),
        "updated": lines[-1].get("time"),
        "curves": {name: curve for name, curve in curves.items() if curve["values"]},
        "account": _account(lines, clock),
    }


def _curve(lines: Sequence[Line], name: str, clock: TrainingClock) -> dict[str, Any]:
    points = {line["step"]: line[name] for line in lines if line.get(name) is not None}
    steps = sorted(points)
    values = [points[step] for step in steps]
    kept = thinned(values)
    return {
        "steps": [steps[place] for place in kept],
        "hours": [round(clock.hours_at(steps[place]), 5) for place in kept],
        "values": [_short(values[place]) for place in kept],
    }


def _account(lines: Sequence[Line], clock: TrainingClock) -> dict[str, Any] | None:
    """Shares of the time of each logging interval, by bucket."""
    complete = [
        line for line in lines if all(line.get(f"{bucket}_share") is not None for bucket in BUCKETS)
    ]
    if not complete:
        return None
    rows = [[_share(line[f"{bucket}_share"]) for bucket in BUCKETS] for line in complete]
    steps = [line["step"] for line in complete]
    weights = [after - before for before, after in zip([0, *steps], steps, strict=False)]
    means = averaged(rows, weights)
    ends = [steps[place] for place in ends_of_averaged(len(steps))]
    return {
        "steps": ends,
        "hours": [round(clock.hours_at(step), 5) for step in ends],
        "shares": {
            bucket: [_short(row[place]) for row in means] for place, bucket in enumerate(BUCKETS)
        },
    }


def _tried(read: Callable[[], Result], problems: list[str]) -> Result | None:
    try:
        return read()
    except MyXTTSError as error:
        problems.append(str(error))
        return None


def _seconds(report: dict[str, Any]) -> dict[str, float] | None:
    spent = report.get("seconds")
    if not spent:
        return None
    return {bucket: _short(max(0.0, spent.get(bucket, 0.0))) for bucket in BUCKETS}


def _facts(report: dict[str, Any]) -> dict[str, Any]:
    facts = {name: report[name] for name in _FACTS if report.get(name) is not None}
    if "model_devices" in facts:
        facts["model_devices"] = ", ".join(facts["model_devices"])
    return {
        name: fact[:_MOST_CHARACTERS] if isinstance(fact, str) else fact
        for name, fact in facts.items()
    }


def _shortened(sentences: Iterable[str]) -> list[str]:
    return [sentence[:_MOST_CHARACTERS] for sentence in sentences]


def _short(value: float) -> float:
    """Six digits are more than a picture shows, and no number that sums and scales overflow on."""
    return float(f"{min(max(value, -_LARGEST), _LARGEST):.6g}")


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def _with_sane_times(line: Line) -> Line:
    seconds = (line.get(name) for name in ("step_seconds", "data_wait_seconds"))
    step, wait = (value and min(max(value, 0.0), _LONGEST_STEP_SECONDS) for value in seconds)
    return {"step": line["step"], "step_seconds": step, "data_wait_seconds": wait}


def _status_of(file: Path) -> tuple[int, ...] | None:
    try:
        status = os.lstat(file)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
