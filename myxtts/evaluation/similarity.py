"""Is it the voice that was meant? A clip beside another clip of the speaker."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from myxtts.evaluation.measure import Figure, FloatArray, Measure, Score, Sound, Speech, Tool

VOICE_SIMILARITY = Figure(name="similarity", title="voice similarity", unit="cosine")
OWN_SIMILARITY = Figure(name="own_similarity", title="voice similarity, own encoder", unit="cosine")


class Resemblyzer(Measure):
    """A speaker encoder that was trained to tell speakers apart."""

    tool = Tool(name="Resemblyzer", licence="Apache-2.0", extra="eval-torch")
    figures = (VOICE_SIMILARITY,)

    def __init__(self) -> None:
        import resemblyzer

        self._prepare: Any = resemblyzer.preprocess_wav
        self._encoder: Any = resemblyzer.VoiceEncoder("cpu", verbose=False)
        # The same reference comes with the clips of every column.
        self._vector = functools.lru_cache(maxsize=4)(self._compute_vector)

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        ours, theirs = self._vector(speech), self._vector(speech.reference)
        if ours is None or theirs is None:
            return {}
        return {VOICE_SIMILARITY.name: Score(_cosine(ours, theirs))}

    def _compute_vector(self, sound: Sound) -> FloatArray | None:
        # It cuts what it takes for silence, which may be all there is.
        voice = self._prepare(sound.at_measured_rate)
        vector: FloatArray | None = self._encoder.embed_utterance(voice) if voice.size else None
        return vector


class OwnVoiceEncoder(Measure):
    """By the voice encoder that the model was trained with: not independent, but always there."""

    tool = Tool(name="the run's own voice encoder", licence="that of the run", independent=False)
    figures = (OWN_SIMILARITY,)

    def __init__(self, vector_of: Callable[[FloatArray], npt.NDArray[np.float32]]) -> None:
        """`vector_of` samples at the rate of the run's recordings."""
        self._vector_of = vector_of

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        ours = self._vector_of(speech.waveform)
        theirs = self._vector_of(speech.reference.waveform)
        return {OWN_SIMILARITY.name: Score(_cosine(ours, theirs))}


def _cosine(ours: FloatArray, theirs: FloatArray) -> float:
    return float(ours @ theirs / (np.linalg.norm(ours) * np.linalg.norm(theirs) + 1e-9))
