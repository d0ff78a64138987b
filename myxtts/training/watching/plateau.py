"""Detects when the validation loss plateaus or rises.

Knows no files and no trainer. A resumed run replays its metrics.jsonl, so no warning is repeated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

# Losses fall roughly as a power of the step. So the last quarter of a run is compared with the
# quarter before it, whatever the interval between evaluations: a loss proportional to step^-0.1,
# which is slow, is 3 % lower there.
_LITTLE = 0.01
_QUARTERS = 4
# Fewer are not conclusive, and a short run such as the demo needs no warning.
_LEAST_EVALUATIONS = 4
# Above this fraction of its peak, most of the learning rate decay is still to come.
_HIGH_RATE = 0.5

_MEASURE = "The loss does not tell how the speech sounds: check with myxtts evaluate"


class ValidationPoint(NamedTuple):
    step: int
    learning_rate: float
    losses: Mapping[str, float]
    """On the validation clips, and the training means since the previous evaluation."""


@dataclass(frozen=True)
class Verdict:
    kind: str
    """flat, overfitting or worse."""
    since_step: int
    message: str


class _Change(NamedTuple):
    before: float
    recent: float
    noise: float
    """Uncertainty of `share`, estimated from the scatter of the values."""

    @property
    def share(self) -> float:
        return self.recent / max(self.before, 1e-12) - 1

    @property
    def falls(self) -> bool:
        return self.share < -_LITTLE

    @property
    def rises(self) -> bool:
        return self.share > _LITTLE + self.noise

    @property
    def is_flat(self) -> bool:
        """Even a fall hidden by the noise would be small."""
        return not self.rises and self.noise - self.share < _LITTLE

    def __str__(self) -> str:
        return f"{self.before:.3f} to {self.recent:.3f}"


def judge(history: Sequence[ValidationPoint]) -> Verdict | None:
    """None if the loss falls, or there are too few evaluations to tell."""
    size = max(_LEAST_EVALUATIONS, len(history) // _QUARTERS)
    if len(history) < 2 * size:
        return None
    changes = {
        name: _change([evaluation.losses[name] for evaluation in history[-2 * size :]])
        for name in history[-1].losses
    }
    since = history[-2 * size].step
    loss = changes["validation_loss"]
    if loss.is_flat:
        return Verdict("flat", since, _flat(since, 2 * size, changes, _rate_share(history)))
    if not loss.rises:
        return None
    if changes["loss"].falls:
        return Verdict("overfitting", since, _overfitting(since, changes))
    message = (
        f"The validation loss has been rising since step {since:,} ({loss}), and the training "
        "loss is not falling: lower training.learning_rate"
    )
    return Verdict("worse", since, message)


def _flat(since: int, evaluations: int, changes: Mapping[str, _Change], rate_share: float) -> str:
    overfitted = _overfitted_part(changes)
    part = (
        f" Its {overfitted} part rises ({changes[f'validation_{overfitted}_loss']}) while it falls "
        "in training: that part is overfitting."
        if overfitted
        else ""
    )
    if rate_share > _HIGH_RATE:
        outlook = (
            f"The learning rate is still at {rate_share:.0%} of its peak: the loss may fall as it "
            "decays, and sooner with a smaller --max-steps or training.learning_rate"
        )
    else:
        outlook = "Training longer gains little: stop, or train on more recordings"
    return (
        f"The validation loss has been flat since step {since:,} "
        f"({changes['validation_loss']} over {evaluations} evaluations).{part} {outlook}. "
        f"{_MEASURE}"
    )


def _overfitting(since: int, changes: Mapping[str, _Change]) -> str:
    part = _overfitted_part(changes)
    where = f", mostly its {part} part ({changes[f'validation_{part}_loss']})" if part else ""
    return (
        f"The validation loss has been rising since step {since:,} "
        f"({changes['validation_loss']}){where}, while the training loss falls: the model is "
        "overfitting. Stop and use the best checkpoint, train on more recordings, or augment them "
        f"with augmentation.speed. {_MEASURE}"
    )


def _overfitted_part(changes: Mapping[str, _Change]) -> str | None:
    """The part of the loss that rises most in validation while it falls in training."""
    rises = {
        name.removesuffix("_loss"): changes[f"validation_{name}"]
        for name in changes
        if _is_training_part(name) and changes[name].falls and changes[f"validation_{name}"].rises
    }
    return max(rises, key=lambda name: rises[name].recent - rises[name].before, default=None)


def _rate_share(history: Sequence[ValidationPoint]) -> float:
    rates = [evaluation.learning_rate for evaluation in history]
    return rates[-1] / max(rates) if max(rates) > 0 else 0.0


def _change(values: Sequence[float]) -> _Change:
    size = len(values) // 2
    before, recent = float(np.mean(values[:size])), float(np.mean(values[size:]))
    # From successive differences, which a slow trend affects little.
    deviation = math.sqrt(float(np.mean(np.diff(values) ** 2)) / 2)
    return _Change(before, recent, deviation * math.sqrt(2 / size) / max(before, 1e-12))


class LossWatch:
    """Collects the metrics of a run and reports each kind of problem once."""

    def __init__(self) -> None:
        self.verdict: Verdict | None = None
        """As of the last evaluation."""
        self._history: list[ValidationPoint] = []
        self._training: list[list[float]] = []
        self._found: set[str] = set()

    def update(self, step: int, line: Mapping[str, float | None]) -> Verdict | None:
        """A verdict that this line is the first to show; lines without numbers are skipped."""
        names = ["loss", *filter(_is_training_part, line)]
        training = _numbers(line, names)
        if training:
            self._training.append(training)
        validated = [f"validation_{name}" for name in names]
        validation, rate = _numbers(line, validated), line.get("learning_rate")
        if not validation or not self._training or rate is None:
            return None
        means = np.mean(self._training, axis=0).tolist()
        self._training = []
        losses = dict(zip((*names, *validated), (*means, *validation), strict=True))
        self._history.append(ValidationPoint(step, rate, losses))
        self.verdict = judge(self._history)
        if self.verdict is None or self.verdict.kind in self._found:
            return None
        self._found.add(self.verdict.kind)
        return self.verdict


def _is_training_part(name: str) -> bool:
    """Whatever the task calls the parts of its loss."""
    return name.endswith("_loss") and not name.startswith("validation_")


def _numbers(line: Mapping[str, float | None], names: Sequence[str]) -> list[float]:
    values = [line.get(name) for name in names]
    found = [value for value in values if value is not None and math.isfinite(value)]
    return found if len(found) == len(names) else []
