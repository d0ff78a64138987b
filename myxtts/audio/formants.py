"""The resonances of a log-mel, moved without its pitch.

The slow part of a frame, from band to band, is the shape of the vocal tract; the fast part are the
harmonics of the pitch. Moving the slow part alone is a matrix, the same for every frame.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from myxtts.audio.mel import band_centres_hz, cosines_over_bands
from myxtts.config.config import AudioConfig

# Of 80 bands: up to this many half-waves over all bands are shape. The harmonics of a voice of
# 350 Hz, which is a child's, lie just above.
_HALF_WAVES_PER_BAND = 14 / 80


def formant_weights(audio: AudioConfig, n_mels: int, factor: float) -> npt.NDArray[np.float32]:
    """[mels, mels]: log-mels [frames, mels] times this have resonances `factor` times as high."""
    cosines = cosines_over_bands(np.arange(max(2, round(_HALF_WAVES_PER_BAND * n_mels))), n_mels)
    cosines /= np.linalg.norm(cosines, axis=1, keepdims=True)
    shape_of = cosines.T @ cosines
    centres = band_centres_hz(audio, n_mels)
    taken_from = np.interp(centres / factor, centres, np.arange(n_mels))
    moved = np.stack([np.interp(taken_from, np.arange(n_mels), unit) for unit in np.eye(n_mels)], 1)
    weights = moved @ shape_of + np.eye(n_mels) - shape_of
    return weights.T.astype(np.float32)
