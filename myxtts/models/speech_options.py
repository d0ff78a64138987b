"""How a text is said, and what is allowed there. No TensorFlow: wrong options are told at once."""

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
    "seed": (Integral, 0, 2**31 - 1),
}


class SpeechOptionError(DataError):
    """An option of another type or out of its range; programs may spell its name in their way."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"{option}: {problem}")
        self.option = option
        self.problem = problem


@dataclass(frozen=True, kw_only=True)
class SpeechOptions:
    steps: int = 10
    """Euler steps from noise to speech: more are slower and a little clearer."""
    temperature: float = 0.3
    """Spread of the noise to start from: lower is flatter and safer."""
    text_guidance: float | None = None
    """How far to go beyond any speech of this voice, towards this text; None: as far as the run's
    training.text_guidance says. 0 is off and twice as fast."""
    voice_guidance: float | None = None
    """How far to go beyond this text in any voice, towards this one; None: as far as the run's
    training.voice_guidance says."""
    speed: float = 1.0
    """1.2 speaks a fifth faster."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (kind, least, most) in _ALLOWED.items():
            value = getattr(self, name)
            allowed = f"{least:.10g} to {most:.10g}"
            if isinstance(value, bool) or not isinstance(value, kind):
                number = "a whole number" if kind is Integral else "a number"
                raise SpeechOptionError(name, f"found {value!r}, allowed: {number}, {allowed}")
            if value is not None and not least <= value <= most:
                # A whole number may be too large for a float's format.
                found = f"{value:.10g}" if isinstance(value, float) else value
                raise SpeechOptionError(name, f"found {found}, allowed: {allowed}")
