"""Finds pauses in recorded speech."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from myxtts.audio.files import FloatArray, window_levels, window_samples

# Below this a quiet stretch may be the closure of a plosive.
_SHORTEST_PAUSE_SECONDS = 0.14
# Unvoiced consonants are some 20 dB below vowels, a quiet room is further down.
_BELOW_SPEECH_DB = 28.0
# In a noisy recording pauses are as loud as the noise.
_ABOVE_NOISE_DB = 6.0
_LEAST_BELOW_SPEECH_DB = 15.0
_SPEECH_PERCENTILE, _NOISE_PERCENTILE = 90, 3


class Pause(NamedTuple):
    """A quiet stretch, in samples."""

    start: int
    end: int

    @property
    def middle(self) -> int:
        return (self.start + self.end) // 2


def find_pauses(waveform: FloatArray, sample_rate_hz: int) -> list[Pause]:
    """Quiet stretches in order, including those at both ends."""
    levels_db = 20 * np.log10(np.maximum(window_levels(waveform, sample_rate_hz), 1e-7))
    speech_db, noise_db = np.percentile(levels_db, [_SPEECH_PERCENTILE, _NOISE_PERCENTILE])
    threshold_db = max(
        speech_db - _BELOW_SPEECH_DB,
        min(noise_db + _ABOVE_NOISE_DB, speech_db - _LEAST_BELOW_SPEECH_DB),
    )
    edges = np.flatnonzero(np.diff(levels_db < threshold_db, prepend=False, append=False))
    window = window_samples(sample_rate_hz)
    stretches = zip(edges[::2] * window, edges[1::2] * window, strict=True)
    pauses = [Pause(int(start), min(int(end), waveform.size)) for start, end in stretches]
    shortest = _SHORTEST_PAUSE_SECONDS * sample_rate_hz
    return [pause for pause in pauses if pause.end - pause.start >= shortest]
