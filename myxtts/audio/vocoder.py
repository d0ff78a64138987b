"""The vocoder protocol: mel to waveform, such as Griffin-Lim or a trained network."""

from __future__ import annotations

from typing import Protocol

from myxtts.audio.mel import FloatArray


class Vocoder(Protocol):
    def samples(self, log_mel: FloatArray, *, seed: int = 0) -> FloatArray:
        """[frames, mels] -> [samples] in [-1, 1]; deterministic for a seed."""
