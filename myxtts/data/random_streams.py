"""Independent random streams from one seed, with random access by number."""

from __future__ import annotations

import enum

import numpy as np


class Stream(enum.IntEnum):
    ORDER = 0
    REFERENCES = 1
    ROTATION = 2
    AUGMENTATION = 3
    NOISE = 4
    SEGMENTS = 5


def generator_at(seed: int, stream: Stream, number: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, stream, number])))
