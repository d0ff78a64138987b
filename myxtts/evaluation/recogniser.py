"""Intelligibility: error rates of an independent speech recogniser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from myxtts.audio.pretrained import Recogniser, bare_words
from myxtts.evaluation.measure import (
    MEASURED_RATE_HZ,
    Measure,
    Metric,
    Score,
    Speech,
)

# Recognisers expect some silence before and after the speech.
_SILENCE_SECONDS = 0.5

WORD_ERROR_RATE = Metric(name="wer", title="word error rate", unit="fraction", decimals=3)
CHARACTER_ERROR_RATE = Metric(name="cer", title="character error rate", unit="fraction", decimals=3)


class WordErrors(Measure):
    """Word and character error rates of the recogniser."""

    metrics = (WORD_ERROR_RATE, CHARACTER_ERROR_RATE)

    def __init__(self, recogniser: Recogniser) -> None:
        import jiwer

        self._jiwer: Any = jiwer
        self._recogniser = recogniser
        self.tool = recogniser.tool

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        expected = bare_words(speech.text, speech.language)
        if not expected:
            return {}
        silence = np.zeros(int(_SILENCE_SECONDS * MEASURED_RATE_HZ), np.float32)
        padded = np.concatenate([silence, speech.at_measured_rate, silence])
        transcript = self._recogniser.transcribe(padded, speech.language)
        words = bare_words(transcript, speech.language)
        return {
            "wer": Score(
                float(self._jiwer.wer(expected, words)), len(expected.split()), transcript
            ),
            "cer": Score(float(self._jiwer.cer(expected, words)), len(expected)),
        }
