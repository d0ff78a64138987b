"""Interface of a measure, which computes one or more metrics of a clip.

A measure knows no model, no run and no table. It is only applied to clips that have what it needs:
a recording of the same sentence, a language that it supports.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import soxr

from myxtts.config.metrics import LOWER_IS_BETTER
from myxtts.text.languages import find_language

FloatArray = npt.NDArray[np.float32]

MEASURED_RATE_HZ = 16_000


@dataclass(frozen=True, kw_only=True)
class Tool:
    """The library or model that a measure uses."""

    name: str
    licence: str
    extra: str | None = None
    """The extra of this package that installs it; None: always installed."""
    languages: tuple[str, ...] | None = None
    """The languages that it supports; None: any."""
    independent: bool = True
    """False: it was trained together with the model that it evaluates."""

    def understands(self, language: str) -> bool:
        return self.languages is None or find_language(language).base in self.languages


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
class Sound:
    waveform: FloatArray
    sample_rate_hz: int

    @functools.cached_property
    def at_measured_rate(self) -> FloatArray:
        """Samples in [-1, 1] at the sample rate that all measures use."""
        samples = self.waveform
        if self.sample_rate_hz != MEASURED_RATE_HZ:
            samples = soxr.resample(samples, self.sample_rate_hz, MEASURED_RATE_HZ)
        return np.clip(samples, -1.0, 1.0).astype(np.float32)

    @property
    def seconds(self) -> float:
        return self.waveform.size / self.sample_rate_hz


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
