"""Interface of a measure, which computes one or more metrics of a clip.

A measure knows no model, no run and no table. It is only applied to clips that have what it needs:
a recording of the same sentence, a language that it supports.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from myxtts.audio.pretrained import MEASURED_RATE_HZ as MEASURED_RATE_HZ
from myxtts.audio.pretrained import Sound as Sound
from myxtts.audio.pretrained import Tool as Tool
from myxtts.config.metrics import LOWER_IS_BETTER

FloatArray = npt.NDArray[np.float32]

BUILT_IN = Tool(name="computed here", licence="Apache-2.0")


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One row of the table."""

    name: str
    title: str
    unit: str = ""
    decimals: int = 2
    needs_recording: bool = False
    """Compares with a recording of the same sentence."""

    @property
    def better(self) -> str:
        """lower, higher, or as close as possible to the recordings."""
        if self.name not in LOWER_IS_BETTER:
            return "as recorded"
        return "lower" if LOWER_IS_BETTER[self.name] else "higher"


@dataclass(frozen=True)
class Score:
    value: float
    weight: float = 1.0
    """Weight of the clip in the mean, such as its number of words for the word error rate."""
    note: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Speech(Sound):
    """A clip to evaluate, with everything that measures may need."""

    text: str
    language: str
    reference: Sound
    """Another clip of the target voice."""
    recording: Sound | None = None
    """The speaker's own recording of the same sentence."""
    making_seconds: float | None = None
    """Seconds that synthesis took; None for recordings."""


class Measure(ABC):
    tool: Tool = BUILT_IN
    metrics: tuple[Metric, ...]

    @abstractmethod
    def scores(self, speech: Speech) -> Mapping[str, Score]:
        """By metric name; metrics that do not apply to this clip are left out."""
