"""Standard errors of figures over trials, by drawing the trials again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from myxtts.evaluation.measures import Score

_DRAWS = 1_000
_Trial = TypeVar("_Trial")


def standard_error(trials: Sequence[_Trial], figure: Callable[[Sequence[_Trial]], float]) -> float:
    draws = np.random.default_rng(0).integers(len(trials), size=(_DRAWS, len(trials)))
    return float(np.std([figure([trials[index] for index in drawn]) for drawn in draws]))


def weighted_mean(scores: Sequence[Score]) -> float:
    return sum(one.value * one.weight for one in scores) / sum(one.weight for one in scores)
