"""Shifts the formants of a log-mel without changing its pitch.

Across bands, the slowly varying part of a frame is the spectral envelope of the vocal tract; the
quickly varying part is the harmonics of the pitch. Shifting the envelope alone is one matrix for
all frames.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from myxtts.audio.mel import band_centres_hz, cosines_over_bands
from myxtts.config.config import AudioConfig

# Cosines with up to this many half-waves per band belong to the envelope. The harmonics of a
# child's voice of 350 Hz are just above.
_HALF_WAVES_PER_BAND = 14 / 80


def formant_weights(audio: AudioConfig, n_mels: int, factor: float) -> npt.NDArray[np.float32]:
    """[mels, mels]: multiplying log-mels [frames, mels] by it scales formants by `factor`."""
    cosines = cosines_over_bands(np.arange(max(2, round(_HALF_WAVES_PER_BAND * n_mels))), n_mels)
    cosines /= np.linalg.norm(cosines, axis=1, keepdims=True)
    shape_of = cosines.T @ cosines
    centres = band_centres_hz(audio, n_mels)
    taken_from = np.interp(centres / factor, centres, np.arange(n_mels))
    moved = np.stack([np.interp(taken_from, np.arange(n_mels), unit) for unit in np.eye(n_mels)], 1)
    weights = moved @ shape_of + np.eye(n_mels) - shape_of
    return weights.T.astype(np.float32)
