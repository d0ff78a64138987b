"""How often each clip is heard, so that rare speakers and languages are not drowned.

A group that has `count` of the clips gets a share of what is heard that is proportional to
count ** (1 - balance): as it is with a balance of 0, the same for every group with 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.config.config import DataConfig
from myxtts.data.lengths import IntArray

Weights = npt.NDArray[np.float64]


class Voices(NamedTuple):
    """Numbers for each clip's speaker and language."""

    speakers: IntArray
    languages: IntArray


def balanced_weights(
    voices: Voices | None, used: npt.NDArray[np.bool_], data: DataConfig
) -> Weights | None:
    """A weight for each clip, 1 on average over the used ones and 0 for the others.

    None where all weigh the same, as without voices. Languages come after speakers, by what is
    heard of each once its speakers are balanced: with both balances at 1 every language is heard
    equally often, and within it every speaker.
    """
    if voices is None or not used.any():
        return None
    weights = np.ones(int(used.sum()))
    for groups, balance in (
        (voices.speakers[used], data.speaker_balance),
        (voices.languages[used], data.language_balance),
    ):
        if balance == 0:
            continue
        heard = np.bincount(groups, weights)
        factors = np.where(heard > 0, heard, 1.0) ** -balance
        weights *= factors[groups]
    if np.allclose(weights, weights[:1], rtol=1e-9, atol=0):
        return None
    everywhere = np.zeros(used.size)
    everywhere[used] = weights / weights.mean()
    return everywhere
