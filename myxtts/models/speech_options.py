"""Options of synthesis and their bounds, without TensorFlow so that errors are immediate."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from myxtts.errors import DataError

_ALLOWED: dict[str, tuple[Any, float, float]] = {
    "steps": (Integral, 1, 1_000),
    "temperature": (Real, 0, 2),
    "text_guidance": (Real | None, 0, 10),
    "voice_guidance": (Real | None, 0, 10),
    "speed": (Real, 0.25, 4),
    "loudness": (Real, -60, -6),
    "seed": (Integral, 0, 2**31 - 1),
}


class SpeechOptionError(DataError):
    """An option of the wrong type or out of range; callers may rename it."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option}: {problem}")
        self.option = option
        self.problem = problem


@dataclass(frozen=True, kw_only=True)
class SpeechOptions:
    """Options of synthesis.

    >>> tts.tts("Hello.", options=SpeechOptions(steps=20, seed=1))  # doctest: +SKIP
    """

    steps: int = 10
    """Sampling steps: more is slower and slightly clearer."""
    temperature: float = 0.1
    """Standard deviation of the initial noise: lower is flatter and safer."""
    text_guidance: float | None = None
    """Scale of classifier-free guidance toward the text. None uses training.text_guidance of the
    run; 0 turns it off, which is twice as fast.
    """
    voice_guidance: float | None = None
    """Scale of guidance toward the voice; None uses training.voice_guidance of the run."""
    speed: float = 1.0
    """Speaking rate: 1.2 is 20 % faster."""
    loudness: float = -20.0
    """RMS level of speech in dBFS, without pauses; peaks stay below -1 dBFS."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (kind, minimum, maximum) in _ALLOWED.items():
            value = getattr(self, name)
            allowed = f"{minimum:.10g} to {maximum:.10g}"
            if isinstance(value, bool) or not isinstance(value, kind):
                number = "a whole number" if kind is Integral else "a number"
                raise SpeechOptionError(name, f"found {value!r}, allowed: {number}, {allowed}")
            if value is not None and not minimum <= value <= maximum:
                # An integer may be too large to format as a float.
                found = f"{value:.10g}" if isinstance(value, float) else value
                raise SpeechOptionError(name, f"found {found}, allowed: {allowed}")
