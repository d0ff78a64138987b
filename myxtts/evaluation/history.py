"""Reads the history of a run: every loss and metric over steps, hours and utterances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.config.config import TRAINING_LOSSES, VALIDATION_LOSSES
from myxtts.config.loading import load_config
from myxtts.errors import CheckpointError
from myxtts.evaluation.measures import SPEECH_METRICS, Metric
from myxtts.files import read_json
from myxtts.runs.run_dir import RunDir

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
    """What its losses depend on besides the model: data, tokens and task."""
    steps: int
    hours: float
    utterances: int
    curves: dict[str, Curve]
    """By metric name; only those that the run has."""
    report: dict[str, Any]
    ceiling: dict[str, float]
    """Metrics of the recordings in the run's evaluation."""
    sentences: tuple[str, ...]
    """The sentences of that evaluation."""


def read_history(folder: Path) -> RunHistory:
    run = RunDir(folder)
    lines = [*run.lines_of_training(), *run.measure_lines()]
    config = load_config(run.config_file)
    evaluation = read_evaluation(run)
    if evaluation is not None:
        lines.append(evaluation.as_line)
    clock = TrainingClock(lines)
    curves = {}
    for metric in METRICS:
        points = {
            line["step"]: line[metric.name] for line in lines if line.get(metric.name) is not None
        }
        if points:
            steps = sorted(points)
            curves[metric.name] = Curve(
                tuple(steps),
                tuple(clock.hours_at(step) for step in steps),
                tuple(step * config.clips_per_step for step in steps),
                tuple(points[step] for step in steps),
            )
    last = max(line["step"] for line in lines)
    return RunHistory(
        folder=folder,
        corpus=(
            config.data.train_data,
            config.data.val_data,
            config.text.tokens,
            config.training.task,
        ),
        steps=last,
        hours=clock.hours_at(last),
        utterances=last * config.clips_per_step,
        curves=curves,
        report=_read_if_there(run.report_file),
        ceiling=evaluation.ceiling if evaluation else {},
        sentences=evaluation.sentences if evaluation else (),
    )


@dataclass(frozen=True)
class LastEvaluation:
    as_line: dict[str, Any]
    """The step and the means of the run's speech, like a line of metrics.jsonl."""
    ceiling: dict[str, float]
    """The means of the recordings."""
    sentences: tuple[str, ...]


def read_evaluation(run: RunDir) -> LastEvaluation | None:
    """What `myxtts evaluate` has left in the run."""
    content = _read_if_there(run.evaluation_file, ("step", "measures", "sentences"))
    if not content:
        return None
    means = {name: measure["means"] for name, measure in content["measures"].items()}
    return LastEvaluation(
        as_line={
            "step": content["step"],
            **{name: columns.get("model") for name, columns in means.items()},
        },
        ceiling={
            name: columns["recordings"]
            for name, columns in means.items()
            if columns.get("recordings") is not None
        },
        sentences=tuple(sentence["text"] for sentence in content["sentences"]),
    )


class TrainingClock:
    """Hours of training at a step: steps and data waits, without pauses between resumes."""

    def __init__(self, lines: Sequence[dict[str, Any]]) -> None:
        timed = sorted((line for line in lines if line.get("step_seconds") is not None), key=_step)
        steps = np.array([0, *map(_step, timed)])
        seconds = [line["step_seconds"] + (line.get("data_wait_seconds") or 0.0) for line in timed]
        self._steps = steps
        self._hours = np.append(0.0, np.cumsum(np.diff(steps) * seconds)) / 3_600

    def hours_at(self, step: int) -> float:
        return float(np.interp(step, self._steps, self._hours))


def _step(line: dict[str, Any]) -> int:
    step: int = line["step"]
    return step


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
