"""Lengths of clips, in tokens and mel frames."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# Shapes are rounded up to these multiples: finer ones save little padding and vectorise worse.
TOKEN_MULTIPLE = 4
FRAME_MULTIPLE = 8

IntArray = npt.NDArray[np.int32]


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
