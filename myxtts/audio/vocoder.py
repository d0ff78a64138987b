"""What turns a mel into sound. Griffin-Lim is one; a trained network is another."""

from __future__ import annotations

from typing import Protocol

from myxtts.audio.mel import FloatArray


class Vocoder(Protocol):
    def samples(self, log_mel: FloatArray, *, seed: int = 0) -> FloatArray:
        """[frames, mels] -> [samples] in -1 to 1; the same seed gives the same samples."""
