"""The vocoder protocol: mel to waveform, such as Griffin-Lim or a trained network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from myxtts.audio.mel import FloatArray


class Vocoder(Protocol):
    def samples(self, log_mel: FloatArray, *, seed: int = 0) -> FloatArray:
        """[frames, mels] -> [samples] in [-1, 1]; deterministic for a seed."""


@runtime_checkable
class StreamingVocoder(Vocoder, Protocol):
    """A vocoder that speaks a mel while it still arrives."""

    def stream(self, log_mels: Iterable[FloatArray], *, seed: int = 0) -> Iterator[FloatArray]:
        """Chunks [frames, mels] to samples; joined, they equal those of the whole mel."""
