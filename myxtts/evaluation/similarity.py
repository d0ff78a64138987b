"""Voice similarity: a clip compared with another clip of the target speaker."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from myxtts.evaluation.measure import FloatArray, Measure, Metric, Score, Sound, Speech, Tool

VOICE_SIMILARITY = Metric(name="similarity", title="voice similarity", unit="cosine")
OWN_SIMILARITY = Metric(name="own_similarity", title="voice similarity, own encoder", unit="cosine")


# The RMS level of the audio that Resemblyzer was trained on.
_RESEMBLYZER_LEVEL = 10 ** (-30 / 20)


class ResemblyzerVectors:
    """Embeddings of a speaker encoder trained for speaker verification."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            # It imports names that are to be removed, which its users cannot change.
            warnings.simplefilter("ignore")
            import resemblyzer

        self._prepare: Any = resemblyzer.preprocess_wav
        self._encoder: Any = resemblyzer.VoiceEncoder("cpu", verbose=False)

    def of(self, sound: Sound) -> FloatArray | None:
        """None for silence."""
        heard = self.with_windows(sound)
        return None if heard is None else heard[0]

    def with_windows(self, sound: Sound) -> tuple[FloatArray, FloatArray] | None:
        """Also the vectors of its windows of 1.6 s; None for silence."""
        samples = sound.at_measured_rate
        level = float(np.sqrt(np.mean(np.square(samples)))) if samples.size else 0.0
        if not level:
            return None
        # Embeddings depend on the level, which is not part of a voice.
        voice = self._prepare(samples * (_RESEMBLYZER_LEVEL / level))
        # It trims what it considers silence, which may be everything.
        if not voice.size:
            return None
        vector, windows, _ = self._encoder.embed_utterance(voice, return_partials=True)
        return vector, windows


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
