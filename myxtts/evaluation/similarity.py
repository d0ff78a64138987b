"""Voice similarity: a clip compared with another clip of the target speaker."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from myxtts.audio.pretrained import ResemblyzerVectors as ResemblyzerVectors
from myxtts.evaluation.measure import FloatArray, Measure, Metric, Score, Speech, Tool

VOICE_SIMILARITY = Metric(name="similarity", title="voice similarity", unit="cosine")
OWN_SIMILARITY = Metric(name="own_similarity", title="voice similarity, own encoder", unit="cosine")


class Resemblyzer(Measure):
    tool = Tool(name="Resemblyzer", licence="Apache-2.0", extra="eval-torch")
    metrics = (VOICE_SIMILARITY,)

    def __init__(self) -> None:
        # The clips of all columns share a reference.
        self._vector = functools.lru_cache(maxsize=4)(ResemblyzerVectors().of)

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        ours, theirs = self._vector(speech), self._vector(speech.reference)
        if ours is None or theirs is None:
            return {}
        return {VOICE_SIMILARITY.name: Score(cosine(ours, theirs))}


class OwnVoiceEncoder(Measure):
    """Uses the model's own voice encoder: not independent, but always available."""

    tool = Tool(name="the run's own voice encoder", licence="that of the run", independent=False)
    metrics = (OWN_SIMILARITY,)

    def __init__(self, vector_of: Callable[[FloatArray], npt.NDArray[np.float32]]) -> None:
        """`vector_of` embeds samples at the run's sample rate."""
        self._vector_of = vector_of

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        ours = self._vector_of(speech.waveform)
        theirs = self._vector_of(speech.reference.waveform)
        return {OWN_SIMILARITY.name: Score(cosine(ours, theirs))}


def cosine(ours: FloatArray, theirs: FloatArray) -> float:
    return float(ours @ theirs / (np.linalg.norm(ours) * np.linalg.norm(theirs) + 1e-9))
