"""Sampling weights of clips that balance speakers and languages.

A group with `count` clips is sampled in proportion to count ** (1 - balance): 0 samples clips
uniformly, 1 samples groups uniformly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.config.config import DataConfig
from myxtts.data.lengths import IntArray

Weights = npt.NDArray[np.float64]


class ClipLabels(NamedTuple):
    """Speaker and language number of each clip."""

    speakers: IntArray
    languages: IntArray


def balanced_weights(
    labels: ClipLabels | None, used: npt.NDArray[np.bool_], data: DataConfig
) -> Weights | None:
    """A weight per clip: 1 on average over the used clips, 0 for the others.

    None if all weights are equal, or without labels. Languages are balanced after speakers: with
    both balances at 1, every language is sampled equally often, and so is every speaker within a
    language.
    """
    if labels is None or not used.any():
        return None
    weights = np.ones(int(used.sum()))
    for groups, balance in (
        (labels.speakers[used], data.speaker_balance),
        (labels.languages[used], data.language_balance),
    ):
        if balance == 0:
            continue
        totals = np.bincount(groups, weights)
        factors = np.where(totals > 0, totals, 1.0) ** -balance
        weights *= factors[groups]
    if np.allclose(weights, weights[:1], rtol=1e-9, atol=0):
        return None
    everywhere = np.zeros(used.size)
    everywhere[used] = weights / weights.mean()
    return everywhere
