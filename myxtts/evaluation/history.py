"""Reads every loss and metric of a run over steps, hours and utterances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.config.config import TRAINING_LOSSES, VALIDATION_LOSSES
from myxtts.config.loading import load_config_of_run
from myxtts.errors import CheckpointError
from myxtts.evaluation.measures import SPEECH_METRICS, Metric
from myxtts.files import read_json
from myxtts.runs.run_dir import (
    BASE_EVALUATION,
    EVALUATION_RESULT,
    RunDir,
    find_checkpoint,
    is_included,
)

LOSSES = frozenset((*TRAINING_LOSSES, *VALIDATION_LOSSES))
AXES = ("steps", "hours", "utterances")
METRICS: tuple[Metric, ...] = (
    *(
        Metric(name=name, title=name.replace("_", " "), decimals=3)
        for name in (*TRAINING_LOSSES, *VALIDATION_LOSSES)
    ),
    *SPEECH_METRICS,
)


@dataclass(frozen=True)
class Curve:
    steps: tuple[int, ...]
    hours: tuple[float, ...]
    utterances: tuple[int, ...]
    values: tuple[float, ...]

    def along(self, axis: str) -> Sequence[float]:
        along: Sequence[float] = getattr(self, axis)
        return along


@dataclass(frozen=True)
class RunHistory:
    folder: Path
    corpus: tuple[str | None, ...]
    """Data, tokens and task, on which the losses depend besides the model."""
    steps: int
    hours: float
    utterances: int
    curves: dict[str, Curve]
    """Curves of the run by metric name."""
    intervals: dict[str, tuple[float, float, int]]
    """95 % interval and number of sentences of the latest value."""
    report: dict[str, Any]
    ceiling: dict[str, float]
    """Metrics of the recordings in the run's evaluation."""
    sentences: tuple[str, ...]
    """The sentences of that evaluation."""


def read_history(folder: Path) -> RunHistory:
    run = RunDir(folder)
    if is_included(folder):
        step = find_checkpoint(folder, for_synthesis=True).info.step
        lines: list[dict[str, Any]] = [{"step": step}]
    else:
        lines = [*run.lines_of_training(), *run.measure_lines()]
    config = load_config_of_run(run.config_file)
    # Written by `myxtts evaluate`.
    place = BASE_EVALUATION if is_included(folder) else run.evaluation
    evaluation = _read_if_there(place / EVALUATION_RESULT, ("step", "measures", "sentences"))
    means = {name: it["means"] for name, it in evaluation.get("measures", {}).items()}
    if evaluation:
        line = {name: columns.get("model") for name, columns in means.items()}
        for name, content in evaluation["measures"].items():
            if interval := content.get("intervals", {}).get("model"):
                count = content["clips"]["model"]
                line |= zip(_interval_names(name), (*interval, count), strict=True)
        lines.append({"step": evaluation["step"], **line})
    hours_at = _clock(lines)
    curves, intervals = {}, {}
    for metric in METRICS:
        points = {
            line["step"]: line[metric.name] for line in lines if line.get(metric.name) is not None
        }
        if points:
            steps = sorted(points)
            curves[metric.name] = Curve(
                tuple(steps),
                tuple(map(hours_at, steps)),
                tuple(step * config.clips_per_step for step in steps),
                tuple(points[step] for step in steps),
            )
            low, high, count = _interval_names(metric.name)
            latest = [line for line in lines if line["step"] == steps[-1] and metric.name in line]
            if metric.shows_interval and latest[-1].get(low) is not None:
                intervals[metric.name] = latest[-1][low], latest[-1][high], int(latest[-1][count])
    last = max(line["step"] for line in lines)
    recordings = {name: columns.get("recordings") for name, columns in means.items()}
    return RunHistory(
        folder=folder,
        corpus=(
            config.data.train_data,
            config.data.val_data,
            config.text.tokens,
            config.training.task,
        ),
        steps=last,
        hours=hours_at(last),
        utterances=last * config.clips_per_step,
        curves=curves,
        intervals=intervals,
        report=_read_if_there(run.report_file),
        ceiling={name: mean for name, mean in recordings.items() if mean is not None},
        sentences=tuple(sentence["text"] for sentence in evaluation.get("sentences", ())),
    )


def _interval_names(metric: str) -> tuple[str, str, str]:
    return f"{metric}_low", f"{metric}_high", f"{metric}_sentences"


def _clock(lines: Sequence[dict[str, Any]]) -> Callable[[int], float]:
    """Return the hours of training at a step: steps and data waits, without pauses in between."""
    timed = sorted(
        (line for line in lines if line.get("step_seconds") is not None),
        key=lambda line: line["step"],
    )
    steps = [0, *(line["step"] for line in timed)]
    seconds = [line["step_seconds"] + (line.get("data_wait_seconds") or 0.0) for line in timed]
    hours = np.append(0.0, np.cumsum(np.diff(steps) * seconds)) / 3_600
    return lambda step: float(np.interp(step, steps, hours))


def _read_if_there(file: Path, names: Sequence[str] = ()) -> dict[str, Any]:
    try:
        content: dict[str, Any] = read_json(file, names)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{file}: cannot be used ({error}); delete it or create it again"
        ) from None
    return content
