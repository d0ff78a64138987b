"""Data augmentation: a pure function of (seed, step).

Speed, pitch, formants and tone belong to the voice, so a clip and its reference get the same ones.
Gain and noise are applied to the reference only: the model should recognize a voice in a bad
recording, not learn to sound like one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.audio.mel import cosines_over_bands
from myxtts.config.config import XTTSConfig
from myxtts.data.schedule import Stream, generator_at
from myxtts.data.shapes import IntArray

# Number of evenly spaced pitch and formant factors; each needs its own weight matrix.
_PITCHES = 33
_FORMANTS = 17
# Number of cosines in a tone curve; higher ones have smaller amplitudes.
_TONE_WAVES = 4
# Noise levels range from the maximum down to this much below it.
NOISE_RANGE_DB = 20.0
NOISE_SAMPLES = 1 << 19

FloatArray = npt.NDArray[np.float32]


class Changes(NamedTuple):
    """Augmentation of each clip of a batch."""

    speed: Any  # float32: speed factor
    pitch: Any  # int32: index into Augmentation.pitches
    formants: Any  # int32: index into Augmentation.formants
    tone: Any  # float32 [mels]: added to each band of the log-mel
    gain: Any  # float32: gain of the reference
    noise: Any  # float32: standard deviation of the reference's noise
    noise_start: Any  # int32: offset into Augmentation.noise()

    def part(self, worker: int, workers: int) -> Changes:
        """Return the rows of one worker in multi-worker training."""
        size = len(self.speed) // workers
        return Changes(*(values[worker * size : (worker + 1) * size] for values in self))


class Augmentation:
    def __init__(self, config: XTTSConfig) -> None:
        settings = config.augmentation
        self._seed = config.training.seed
        self._frames_per_position = config.model.frames_per_position
        self._speed = settings.speed
        self._tone_curves = tone_curves(config.data.n_mels) * settings.tone_db
        self._gain_db = settings.gain_db
        self._noise_dbfs = settings.noise_dbfs
        semitones = settings.pitch_semitones
        steps = np.linspace(-semitones, semitones, _PITCHES) if semitones else np.zeros(1)
        self.pitches = tuple(float(factor) for factor in 2.0 ** (steps / 12.0))
        share = settings.formants
        self.formants = tuple(np.linspace(1.0 - share, 1.0 + share, _FORMANTS if share else 1))
        self.is_on = bool(
            self._speed
            or semitones
            or share
            or settings.tone_db
            or self._gain_db
            or self._noise_dbfs is not None
        )

    @property
    def max_speed(self) -> float:
        return 1.0 + self._speed

    def changes(
        self, step: int, token_counts: IntArray, frame_counts: IntArray, max_frames: int
    ) -> Changes:
        """Draw the augmentation of a step.

        Speeds are limited so that a clip fits its shape and has a position per token.
        """
        generator = generator_at(self._seed, Stream.AUGMENTATION, step)
        count = len(frame_counts)
        slowest = (frame_counts - 1) / max(max_frames - 1, 1)
        min_frames = token_counts * self._frames_per_position
        fastest = (frame_counts - 1) / np.maximum(min_frames - 1, 1)
        wished = 1.0 + self._speed * generator.uniform(-1.0, 1.0, count)
        gain_db = generator.uniform(-self._gain_db, self._gain_db, count)
        softer_db = generator.uniform(0.0, NOISE_RANGE_DB, count)
        pitch = generator.integers(len(self.pitches), size=count)
        noise_start = generator.integers(NOISE_SAMPLES, size=count)
        formants = generator.integers(len(self.formants), size=count)
        tone_db = generator.uniform(-1.0, 1.0, (count, _TONE_WAVES)) @ self._tone_curves
        noise = np.zeros(count)
        if self._noise_dbfs is not None:
            noise = 10.0 ** ((self._noise_dbfs - softer_db) / 20.0)
        return Changes(
            speed=np.clip(wished, np.minimum(slowest, 1.0), np.maximum(fastest, 1.0)).astype(
                np.float32
            ),
            pitch=pitch.astype(np.int32),
            formants=formants.astype(np.int32),
            tone=(tone_db / 20.0 * np.log(10.0)).astype(np.float32),
            gain=(10.0 ** (gain_db / 20.0)).astype(np.float32),
            noise=noise.astype(np.float32),
            noise_start=noise_start.astype(np.int32),
        )

    def noise(self) -> FloatArray:
        """Return white noise of unit variance, from which each reference gets a random excerpt."""
        generator = generator_at(self._seed, Stream.NOISE)
        return generator.standard_normal(NOISE_SAMPLES, np.float32)


def tone_curves(n_mels: int) -> npt.NDArray[np.float64]:
    """Return [waves, mels]: cosines over the bands whose amplitudes sum to one."""
    waves = np.arange(1, _TONE_WAVES + 1)
    return cosines_over_bands(waves, n_mels) / waves[:, None] / np.sum(1 / waves)


def frames_at_speed(frame_counts: IntArray, speed: Any) -> IntArray:
    """Return the mel frames of clips at `speed` times their speed."""
    # Rounding a speed to float32 must not change the frame count.
    return (np.floor((frame_counts - 1) / np.float64(speed) + 1e-4) + 1).astype(np.int32)
