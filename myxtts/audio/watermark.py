"""An inaudible mark in speech, and finding it again. No TensorFlow.

The mark is noise with the spectral envelope of the speech itself, far below it, repeated every
second from the start of the file. A detector flattens the spectrum of a recording, adds up its
seconds and correlates the sum with the noise at every shift. In recordings without the mark the
largest of these correlations stays below a few standard deviations.

The noise is the same in every copy of the program: the mark tells apart what was made with it and
what was not. It is no proof against somebody who wants it gone.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import soxr

FloatArray = npt.NDArray[np.float32]

_RATE_HZ = 16_000
_PERIOD_SAMPLES = _RATE_HZ
_FFT_SAMPLES = 512
_HOP_SAMPLES = 128
_KEY = 20_240_229
# Below the speech by this much, in every band.
_LEVEL_DB = -20.0
# Speech below and above has little energy, and codecs drop what is high.
_LOWEST_HZ, _HIGHEST_HZ = 150.0, 5_500.0
_ENVELOPE_BINS = 9
_ENVELOPE_FRAMES = 5
# Standard deviations of the best shift over all shifts. docs/en/speaking.md has false alarms and
# misses measured.
_FOUND_ABOVE = 6.0
# What is heard in the quietest moments of a band is noise; a little more of it is in the others.
_QUIET_PERCENT = 10.0
_NOISE_ABOVE_QUIET = 1.5


SHORTEST_SECONDS = 1.0
"""Less holds too little of the mark to say that there is none."""


class Detection(NamedTuple):
    is_marked: bool
    score: float
    """Standard deviations by which the best shift exceeds the others; above 6 it is marked."""


def with_watermark(waveform: FloatArray, sample_rate_hz: int, first_sample: int = 0) -> FloatArray:
    """The same sound with the mark; `first_sample` is where it begins in its file."""
    if waveform.size < _FFT_SAMPLES:
        return waveform
    speech = np.asarray(soxr.resample(waveform, sample_rate_hz, _RATE_HZ), np.float32)
    first = round(first_sample * _RATE_HZ / sample_rate_hz)
    index = np.arange(first, first + speech.size) % _PERIOD_SAMPLES
    mark = _shaped_like(speech, _noise()[index])
    at_rate = np.asarray(soxr.resample(mark, _RATE_HZ, sample_rate_hz), np.float32)
    marked = waveform.copy()
    length = min(marked.size, at_rate.size)
    marked[:length] += at_rate[:length]
    return np.clip(marked, -1.0, 1.0)


class Marker:
    """Marks a file that is made piece by piece."""

    def __init__(self, sample_rate_hz: int) -> None:
        self._sample_rate_hz = sample_rate_hz
        self._samples_before = 0

    def __call__(self, piece: FloatArray) -> FloatArray:
        marked = with_watermark(piece, self._sample_rate_hz, self._samples_before)
        self._samples_before += piece.size
        return marked


def find_watermark(waveform: FloatArray, sample_rate_hz: int) -> Detection:
    """In mono samples at any rate."""
    sound = np.asarray(soxr.resample(waveform, sample_rate_hz, _RATE_HZ), np.float32)
    if sound.size < _PERIOD_SAMPLES:
        sound = np.pad(sound, (0, _PERIOD_SAMPLES - sound.size))
    flat = _flattened(sound)
    whole = np.pad(flat, (0, -flat.size % _PERIOD_SAMPLES)).reshape(-1, _PERIOD_SAMPLES).sum(axis=0)
    spectrum = np.fft.rfft(whole) * np.conj(np.fft.rfft(_noise()))
    correlation = np.fft.irfft(spectrum * _band(_PERIOD_SAMPLES))
    deviation = float(correlation.std())
    score = float(correlation.max()) / deviation if deviation > 0 else 0.0
    return Detection(score > _FOUND_ABOVE, score)


@functools.cache
def _noise() -> FloatArray:
    return np.random.default_rng(_KEY).standard_normal(_PERIOD_SAMPLES, np.float32)


def _shaped_like(speech: FloatArray, noise: FloatArray) -> FloatArray:
    """Noise with the spectral envelope of the speech at every moment, at the level of the mark."""
    of_speech, of_noise = _spectra(speech), _spectra(noise)
    gain = (
        10 ** (_LEVEL_DB / 20)
        * _smoothed(np.abs(of_speech), _ENVELOPE_BINS)
        / np.abs(of_noise).mean()
    )
    return _joined(of_noise * gain * _band(_FFT_SAMPLES), speech.size)


def _flattened(sound: FloatArray) -> FloatArray:
    """Every band at every moment at about the same level, but for those where noise prevails.

    The mark is as strong as the speech and all of the sound is in its way: the best weight of a
    band is the one divided by the power of the other.
    """
    spectra = _spectra(sound)
    power = _smoothed(_smoothed(np.square(np.abs(spectra)), _ENVELOPE_BINS).T, _ENVELOPE_FRAMES).T
    noise = _NOISE_ABOVE_QUIET * np.percentile(power, _QUIET_PERCENT, axis=0)
    speech = np.sqrt(np.maximum(power - noise, 0.0))
    # Silence would become as loud as speech.
    floor = 1e-4 * power.mean() + 1e-12
    weight = speech / np.maximum(power, floor)
    return _joined(spectra * weight * _band(_FFT_SAMPLES), sound.size)


def _smoothed(values: npt.NDArray[np.floating], width: int) -> npt.NDArray[np.floating]:
    """Moving mean along the last axis."""
    padded = np.pad(values, ((0, 0), (width // 2, width // 2)), mode="edge")
    sums = np.cumsum(np.pad(padded, ((0, 0), (1, 0))), axis=1)
    means: npt.NDArray[np.floating] = (sums[:, width:] - sums[:, :-width]) / width
    return means


def _band(samples: int) -> npt.NDArray[np.floating]:
    frequencies = np.fft.rfftfreq(samples, 1 / _RATE_HZ)
    return ((frequencies >= _LOWEST_HZ) & (frequencies <= _HIGHEST_HZ)).astype(np.float32)


def _spectra(waveform: FloatArray) -> npt.NDArray[np.complexfloating]:
    padded = np.pad(waveform, _FFT_SAMPLES)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _FFT_SAMPLES)[::_HOP_SAMPLES]
    return np.fft.rfft(frames * _window())


def _joined(spectra: npt.NDArray[np.complexfloating], samples: int) -> FloatArray:
    frames = np.fft.irfft(spectra) * _window()
    joined = np.zeros((len(frames) - 1) * _HOP_SAMPLES + _FFT_SAMPLES, np.float32)
    for index, frame in enumerate(frames):
        start = index * _HOP_SAMPLES
        joined[start : start + _FFT_SAMPLES] += frame
    # Overlapping squares of a Hann window add up to this.
    joined /= 0.375 * _FFT_SAMPLES / _HOP_SAMPLES
    return joined[_FFT_SAMPLES : _FFT_SAMPLES + samples]


@functools.cache
def _window() -> FloatArray:
    return np.hanning(_FFT_SAMPLES + 1)[:-1].astype(np.float32)
