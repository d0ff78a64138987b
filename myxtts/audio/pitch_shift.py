"""Raises or lowers a voice by resampling, and puts its formants back to where they were.

Resampling changes the duration too; the caller speaks slower or faster beforehand. No TensorFlow.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import soxr

FloatArray = npt.NDArray[np.float32]

_FFT_SAMPLES = 1_024
_HOP_SAMPLES = 256
# Cepstral coefficients of the spectral envelope: fine enough for formants, too coarse for the
# harmonics of any voice.
_ENVELOPE_SECONDS = 0.0014
_FLOOR = 1e-5


def pitch_factor(semitones: float) -> float:
    return float(2.0 ** (semitones / 12.0))


def with_pitch(waveform: FloatArray, sample_rate_hz: int, factor: float) -> FloatArray:
    """The voice at `factor` times its pitch, and 1 / `factor` times as long."""
    if factor == 1.0 or waveform.size < 2:
        return waveform
    resampled = soxr.resample(waveform, sample_rate_hz * factor, sample_rate_hz)
    return _with_formants_moved(np.asarray(resampled, np.float32), sample_rate_hz, factor)


def _with_formants_moved(waveform: FloatArray, sample_rate_hz: int, factor: float) -> FloatArray:
    """Moves the spectral envelope from f to f / `factor`."""
    padded = np.pad(waveform, _FFT_SAMPLES)
    starts = np.arange(0, padded.size - _FFT_SAMPLES + 1, _HOP_SAMPLES)
    window = np.hanning(_FFT_SAMPLES + 1)[:-1].astype(np.float32)
    spectra = np.fft.rfft(padded[starts[:, None] + np.arange(_FFT_SAMPLES)] * window)
    log_envelope = _log_envelope(np.abs(spectra), int(_ENVELOPE_SECONDS * sample_rate_hz))
    bins = np.arange(spectra.shape[1])
    source = np.minimum(bins * factor, bins[-1])
    low = np.floor(source).astype(int)
    high = np.minimum(low + 1, bins[-1])
    share = source - low
    moved = log_envelope[:, low] * (1 - share) + log_envelope[:, high] * share
    frames = np.fft.irfft(spectra * np.exp(moved - log_envelope)) * window
    joined, weight = np.zeros(padded.size), np.zeros(padded.size)
    for start, frame in zip(starts, frames, strict=True):
        joined[start : start + _FFT_SAMPLES] += frame
        weight[start : start + _FFT_SAMPLES] += np.square(window)
    inside = slice(_FFT_SAMPLES, _FFT_SAMPLES + waveform.size)
    return (joined[inside] / np.maximum(weight[inside], _FLOOR)).astype(np.float32)


def _log_envelope(magnitudes: npt.NDArray[np.float64], coefficients: int) -> FloatArray:
    """Smoothed over the frequency axis by keeping the first cepstral coefficients."""
    floor = _FLOOR + 1e-3 * magnitudes.max(axis=1, keepdims=True)
    cepstrum = np.fft.irfft(np.log(np.maximum(magnitudes, floor)))
    cepstrum[:, coefficients + 1 : -coefficients] = 0.0
    return np.fft.rfft(cepstrum).real.astype(np.float32)
