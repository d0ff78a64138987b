"""What a measure is: it hears one clip and gives one or more figures, each with its facts.

A measure knows no model, no run and no table. What a clip does not have (a recording of the same
sentence, a language the measure understands) it does not get asked about.
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
    """What a measure is made with."""

    name: str
    licence: str
    extra: str | None = None
    """The extra of this package that installs it; None: always there."""
    languages: tuple[str, ...] | None = None
    """The languages that it understands; None: sound is sound to it."""
    independent: bool = True
    """False: it was trained together with the model that it judges."""

    def understands(self, language: str) -> bool:
        return self.languages is None or find_language(language).base in self.languages


BUILT_IN = Tool(name="computed here", licence="Apache-2.0")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One row of the table."""

    name: str
    title: str
    unit: str = ""
    decimals: int = 2
    needs_recording: bool = False
    """Compares with a recording of the same sentence."""

    @property
    def better(self) -> str:
        """lower, higher, or (nearer to) the recordings."""
        if self.name not in LOWER_IS_BETTER:
            return "as recorded"
        return "lower" if LOWER_IS_BETTER[self.name] else "higher"


@dataclass(frozen=True)
class Score:
    value: float
    weight: float = 1.0
    """What the clip counts in the mean: words for a word error rate."""
    note: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Sound:
    waveform: FloatArray
    sample_rate_hz: int

    @functools.cached_property
    def at_measured_rate(self) -> FloatArray:
        """Samples in [-1, 1] at the one rate that every measure of sound works at."""
        samples = self.waveform
        if self.sample_rate_hz != MEASURED_RATE_HZ:
            samples = soxr.resample(samples, self.sample_rate_hz, MEASURED_RATE_HZ)
        return np.clip(samples, -1.0, 1.0).astype(np.float32)

    @property
    def seconds(self) -> float:
        return self.waveform.size / self.sample_rate_hz


@dataclass(frozen=True, eq=False, kw_only=True)
class Speech(Sound):
    """A clip to be judged, with all that it can be judged by."""

    text: str
    language: str
    reference: Sound
    """Another clip of the voice that was meant."""
    recording: Sound | None = None
    """The same sentence as its speaker said it."""
    making_seconds: float | None = None
    """How long a program took to make it."""


class Measure(ABC):
    tool: Tool = BUILT_IN
    figures: tuple[Figure, ...]

    @abstractmethod
    def scores(self, speech: Speech) -> Mapping[str, Score]:
        """By the figures' names; one that has no meaning for this clip is left out."""
