"""Metrics of the samples alone: speaking rate, clipping, silence and real-time factor."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from myxtts.audio.files import trim_silence, window_levels
from myxtts.evaluation.measure import Measure, Metric, Score, Speech

_SILENT_BELOW_LOUDEST_DB = 40.0
_FULL_SCALE = 0.999

CHARACTERS_PER_SECOND = Metric(
    name="characters_per_second", title="characters per second", unit="1/s", decimals=1
)
CLIPPING = Metric(name="clipping", title="clipped samples", unit="fraction", decimals=4)
SILENCE = Metric(name="silence", title="silence", unit="fraction")
REAL_TIME_FACTOR = Metric(
    name="real_time_factor", title="real-time factor", unit="s per s", decimals=3
)


class Levels(Measure):
    metrics = (CHARACTERS_PER_SECOND, CLIPPING, SILENCE, REAL_TIME_FACTOR)

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        rate, waveform = speech.sample_rate_hz, speech.waveform
        spoken_seconds = trim_silence(waveform, rate, _SILENT_BELOW_LOUDEST_DB).size / rate
        levels = window_levels(waveform, rate)
        silent = levels <= levels.max() * 10 ** (-_SILENT_BELOW_LOUDEST_DB / 20)
        characters = sum(character.isalnum() for character in speech.text)
        scores = {
            CHARACTERS_PER_SECOND.name: Score(characters / spoken_seconds, spoken_seconds),
            CLIPPING.name: Score(float(np.mean(np.abs(waveform) >= _FULL_SCALE)), speech.seconds),
            SILENCE.name: Score(float(silent.mean()), speech.seconds),
        }
        if speech.making_seconds is not None:
            scores[REAL_TIME_FACTOR.name] = Score(
                speech.making_seconds / speech.seconds, speech.seconds
            )
        return scores
