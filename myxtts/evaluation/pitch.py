"""The pitch of a voice over time, by YIN (de Cheveigne and Kawahara, 2002), in numpy.

Not librosa's: `librosa.yin` does not tell which frames are voiced, `librosa.pyin` took 38 times as
long on speech of the demo corpus, and either would tie this measure to an extra of 370 MB.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from myxtts.evaluation.measure import MEASURED_RATE_HZ, FloatArray

LOWEST_HZ, HIGHEST_HZ = 60.0, 500.0
_WINDOW_SAMPLES = 640
_SHORTEST_LAG = int(MEASURED_RATE_HZ / HIGHEST_HZ)
_LONGEST_LAG = int(np.ceil(MEASURED_RATE_HZ / LOWEST_HZ))
# The first lag with a difference below the first threshold is the period; above the second the
# frame is unvoiced.
_CLEAR_PERIOD, _VOICED_BELOW = 0.15, 0.5
_SILENT_BELOW_LOUDEST_DB = 40.0
_SMALL = 1e-12


def pitch_hz(waveform: FloatArray, hop_samples: int) -> npt.NDArray[np.float64]:
    """One value per frame, frame n centred on sample n * hop; NaN in unvoiced frames."""
    frames = _frames(waveform.astype(np.float64), hop_samples)
    difference = _normalised_difference(frames)
    lags = _periods(difference)
    at_lag = np.take_along_axis(difference, lags[:, None], axis=1)[:, 0]
    level_db = 10 * np.log10(np.mean(frames**2, axis=1) + _SMALL)
    voiced = (at_lag < _VOICED_BELOW) & (level_db > level_db.max() - _SILENT_BELOW_LOUDEST_DB)
    return np.where(voiced, MEASURED_RATE_HZ / _between_samples(difference, lags), np.nan)


def _frames(waveform: npt.NDArray[np.float64], hop_samples: int) -> npt.NDArray[np.float64]:
    length = _WINDOW_SAMPLES + _LONGEST_LAG
    padded = np.pad(waveform, (length // 2, length - length // 2))
    return np.lib.stride_tricks.sliding_window_view(padded, length)[::hop_samples]


def _normalised_difference(frames: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The cumulative mean normalised difference of YIN, by lag."""
    size = 1 << (frames.shape[1] + _WINDOW_SAMPLES).bit_length()
    spectrum = np.fft.rfft(frames, size)
    window = np.fft.rfft(frames[:, :_WINDOW_SAMPLES], size)
    products = np.fft.irfft(spectrum * window.conj(), size)[:, : _LONGEST_LAG + 1]
    sums = np.cumsum(np.pad(frames**2, ((0, 0), (1, 0))), axis=1)
    energy = sums[:, _WINDOW_SAMPLES:] - sums[:, :-_WINDOW_SAMPLES]  # [frames, lags]
    difference = np.maximum(energy[:, :1] + energy - 2 * products, 0.0)
    lags = np.arange(1, _LONGEST_LAG + 1)
    normalised = np.ones_like(difference)
    normalised[:, 1:] = difference[:, 1:] * lags / (np.cumsum(difference[:, 1:], axis=1) + _SMALL)
    # Silence matches itself at every lag, but is unvoiced.
    normalised[energy[:, 0] < _SMALL] = 1.0
    return normalised


def _periods(difference: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """The first clear dip of each frame, or else the deepest."""
    allowed = difference[:, _SHORTEST_LAG:-1]
    falls_no_more = allowed <= difference[:, _SHORTEST_LAG + 1 :]
    clear_dips = (allowed < _CLEAR_PERIOD) & falls_no_more
    first, deepest = clear_dips.argmax(axis=1), allowed.argmin(axis=1)
    return np.where(clear_dips.any(axis=1), first, deepest) + _SHORTEST_LAG


def _between_samples(
    difference: npt.NDArray[np.float64], lags: npt.NDArray[np.intp]
) -> npt.NDArray[np.float64]:
    """Parabolic interpolation of the lag of a dip."""
    rows = np.arange(len(lags))
    left, middle, right = (difference[rows, lags + shift] for shift in (-1, 0, 1))
    bend = left - 2 * middle + right
    shift = np.where(bend > _SMALL, (left - right) / (2 * np.maximum(bend, _SMALL)), 0.0)
    return lags + np.clip(shift, -1.0, 1.0)
