"""What a text becomes: lines to speak, and lines that were spoken. No TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]


class Line(NamedTuple):
    """A sentence to speak, and the pause after it; without tokens it is only the pause."""

    text: str
    """As it was written."""
    token_ids: Sequence[int]
    language_id: int
    pause_seconds: float


@dataclass(frozen=True, eq=False)
class SpokenLine:
    line: Line
    samples: FloatArray
    token_seconds: npt.NDArray[np.float64]
    """How long each token lasts; their sum may exceed the samples by a frame."""
