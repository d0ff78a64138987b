"""Random changes to segments of recordings, for a vocoder that is to copy any voice and recording.

Unlike the changes to mels next to this module, they change the samples themselves: what the
vocoder is given and what it is to produce.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import soxr

from myxtts.config.config import XTTSConfig
from myxtts.data.augmentation import NOISE_RANGE_DB, tone_curves

FloatArray = npt.NDArray[np.float32]

_TONE_BANDS = 64


class SegmentChange(NamedTuple):
    pitch: float  # factor
    tone_db: npt.NDArray[np.float64] | None  # over evenly spaced frequencies
    gain: float
    noise: FloatArray | None  # of the standard deviation that is to be added

    def applied_to(self, samples: FloatArray) -> FloatArray:
        """A higher pitch shortens the segment by the same factor; a lower one cuts off its end."""
        if self.pitch != 1.0:
            samples = soxr.resample(samples, self.pitch, 1.0)[: samples.size]
        if self.tone_db is not None:
            spectrum = np.fft.rfft(samples)
            places = np.linspace(0, _TONE_BANDS - 1, spectrum.size)
            curve_db = np.interp(places, np.arange(_TONE_BANDS), self.tone_db)
            shaped = np.fft.irfft(spectrum * 10 ** (curve_db / 20), samples.size)
            samples = shaped.astype(np.float32)
        samples = samples * np.float32(self.gain)
        if self.noise is not None:
            samples = samples + self.noise[: samples.size]
        return samples


class SegmentChanges:
    def __init__(self, config: XTTSConfig) -> None:
        settings = config.augmentation
        self._semitones = settings.pitch_semitones
        self._tone_db = settings.tone_db
        self._gain_db = settings.gain_db
        self._noise_dbfs = settings.noise_dbfs
        self.most_pitch = 2.0 ** (self._semitones / 12)

    def draw(self, generator: np.random.Generator, width: int) -> SegmentChange:
        """The changes of a segment of `width` samples."""
        semitones = self._semitones * generator.uniform(-1.0, 1.0)
        gain_db = self._gain_db * generator.uniform(-1.0, 1.0)
        curves = tone_curves(_TONE_BANDS)
        tone_db = self._tone_db * (generator.uniform(-1.0, 1.0, len(curves)) @ curves)
        softer_db = generator.uniform(0.0, NOISE_RANGE_DB)
        noise = None
        if self._noise_dbfs is not None:
            level = np.float32(10 ** ((self._noise_dbfs - softer_db) / 20))
            noise = level * generator.standard_normal(width, np.float32)
        return SegmentChange(
            pitch=float(2.0 ** (semitones / 12)),
            tone_db=tone_db if self._tone_db else None,
            gain=float(10 ** (gain_db / 20)),
            noise=noise,
        )
