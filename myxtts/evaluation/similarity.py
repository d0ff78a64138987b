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


# The level, root of the mean square, of the sounds that Resemblyzer was trained on.
_RESEMBLYZER_LEVEL = 10 ** (-30 / 20)


class ResemblyzerVectors:
    """Vectors of a speaker encoder that was trained to tell speakers apart."""

    def __init__(self) -> None:
        import resemblyzer

        self._prepare: Any = resemblyzer.preprocess_wav
        self._encoder: Any = resemblyzer.VoiceEncoder("cpu", verbose=False)

    def of(self, sound: Sound) -> FloatArray | None:
        """None where nothing but silence is heard."""
        samples = sound.at_measured_rate
        level = float(np.sqrt(np.mean(np.square(samples)))) if samples.size else 0.0
        if not level:
            return None
        # Vectors change with the level, which is no part of a voice.
        voice = self._prepare(samples * (_RESEMBLYZER_LEVEL / level))
        # It cuts what it takes for silence, which may be all there is.
        vector: FloatArray | None = self._encoder.embed_utterance(voice) if voice.size else None
        return vector


class Resemblyzer(Measure):
    tool = Tool(name="Resemblyzer", licence="Apache-2.0", extra="eval-torch")
    figures = (VOICE_SIMILARITY,)

    def __init__(self) -> None:
        # The same reference comes with the clips of every column.
        self._vector = functools.lru_cache(maxsize=4)(ResemblyzerVectors().of)

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        ours, theirs = self._vector(speech), self._vector(speech.reference)
        if ours is None or theirs is None:
            return {}
        return {VOICE_SIMILARITY.name: Score(cosine(ours, theirs))}


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
        return {OWN_SIMILARITY.name: Score(cosine(ours, theirs))}


def cosine(ours: FloatArray, theirs: FloatArray) -> float:
    return float(ours @ theirs / (np.linalg.norm(ours) * np.linalg.norm(theirs) + 1e-9))
