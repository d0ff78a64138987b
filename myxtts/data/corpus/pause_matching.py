"""Finds out which pauses of a clip belong to which punctuation marks of its text.

Every pause is at some boundary between words. How likely each one is follows from what lies
between pauses: speech lasts about as long as its symbols at the clip's own speaking rate. It also
follows from the marks: a speaker nearly always pauses after a sentence, often after a comma and
rarely between other words. The forward-backward algorithm sums over all ways to place the pauses,
which gives a probability that says how ambiguous a place is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.audio.files import FloatArray
from myxtts.audio.pauses import Pause, find_pauses
from myxtts.text.tokenizer import is_spoken

_SENTENCE_MARKS = ".?!…。؟"
_CLAUSE_MARKS = ",;:،؛"
# By kind of boundary: between words, after a clause, after a sentence.
_PAUSE_PROBABILITIES = np.array([0.04, 0.75, 0.98])
_TYPICAL_PAUSE_SECONDS = np.array([0.18, 0.3, 0.5])
_DEVIATION_OF_LOG_PAUSE = 0.5
# A breath splits a pause in two.
_BREATH_PROBABILITY = 0.05
_LONGEST_BREATH_SECONDS = 0.7
# Deviation of the time that speech takes from what its symbols predict: of each stretch by itself,
# of its sounds (it grows with the root of the time), and of the rate (it grows with the time).
_EDGE_DEVIATION_SECONDS = 0.06
_SOUND_DEVIATION = 0.14
_RATE_DEVIATION = 0.08
_LEAST_PROBABILITY = 0.99
_SHORTEST_CUT_SECONDS = 0.2

_Floats = npt.NDArray[np.float64]


class Cut(NamedTuple):
    """A place where both the text and the recording can be cut."""

    symbol: int
    """Index of the space between the words."""
    sample: int


def certain_cuts(symbols: Sequence[str], waveform: FloatArray, sample_rate_hz: int) -> list[Cut]:
    """Punctuation marks whose pause is clear and unambiguous, in order."""
    spaces, kinds, spoken = _boundaries(symbols)
    pauses, seconds_before, seconds = _inner_pauses(waveform, sample_rate_hz)
    if not pauses or not spaces.size:
        return []
    lengths = np.array([pause.end - pause.start for pause in pauses]) / sample_rate_hz
    probabilities = _probabilities(
        _Speech(spoken.astype(float), kinds, sum(map(is_spoken, symbols)), seconds_before, seconds),
        lengths,
    )
    longest: dict[int, int] = {}
    for pause, boundary in enumerate(probabilities.argmax(axis=1)):
        is_certain = probabilities[pause, boundary] >= _LEAST_PROBABILITY and kinds[boundary] > 0
        if is_certain and lengths[pause] >= max(
            _SHORTEST_CUT_SECONDS, lengths[longest.get(boundary, pause)]
        ):
            longest[boundary] = pause
    return [Cut(int(spaces[it]), pauses[pause].middle) for it, pause in sorted(longest.items())]


class _Speech(NamedTuple):
    spoken: _Floats
    """Spoken symbols before each boundary."""
    kinds: npt.NDArray[np.int64]
    all_spoken: int
    seconds_before: _Floats
    """Seconds of speech, without pauses, before each pause."""
    seconds: float


def _boundaries(symbols: Sequence[str]) -> tuple[npt.NDArray[np.int64], ...]:
    """Index, kind and number of spoken symbols before, of each space between words."""
    found: list[tuple[int, int, int]] = []
    kind = spoken = 0
    for index, symbol in enumerate(symbols):
        if is_spoken(symbol):
            kind, spoken = 0, spoken + 1
        elif symbol in _SENTENCE_MARKS:
            kind = 2
        elif symbol in _CLAUSE_MARKS:
            kind = max(kind, 1)
        elif symbol == " " and spoken and not (found and found[-1][2] == spoken):
            found.append((index, kind, spoken))
    inner = [it for it in found if it[2] < spoken]
    return tuple(np.array(inner, np.int64).reshape(-1, 3).T)


def _inner_pauses(waveform: FloatArray, sample_rate_hz: int) -> tuple[list[Pause], _Floats, float]:
    """Pauses between words, the seconds of speech before each of them and in all."""
    pauses = find_pauses(waveform, sample_rate_hz)
    quiet = np.cumsum([0, *(pause.end - pause.start for pause in pauses)])
    before = np.array([pause.start for pause in pauses]) - quiet[:-1]
    speech = waveform.size - int(quiet[-1])
    is_inner = (before > 0) & (before < speech)
    inner = [pause for pause, between in zip(pauses, is_inner, strict=True) if between]
    return inner, before[is_inner] / sample_rate_hz, speech / sample_rate_hz


def _probabilities(speech: _Speech, lengths: _Floats) -> _Floats:
    """Probability that a pause is at a boundary, [pauses, boundaries]."""
    spoken, before = speech.spoken, speech.seconds_before
    rate = speech.seconds / speech.all_spoken
    pause_probability = _PAUSE_PROBABILITIES[speech.kinds]
    heard = np.log(pause_probability) - 0.5 * np.square(
        np.log(lengths[:, None] / _TYPICAL_PAUSE_SECONDS[speech.kinds]) / _DEVIATION_OF_LOG_PAUSE
    )
    # Log-probability that none of the boundaries before the n-th has a pause.
    unheard = np.cumsum(np.log1p([0.0, *-pause_probability]))
    earlier = np.tri(spoken.size, k=-1, dtype=bool).T  # [from, to]

    def between(seconds: float) -> _Floats:
        """Log-probability of the next pause's boundary, [from, to]."""
        steps = _pace(seconds, (spoken - spoken[:, None]) * rate) + unheard[:-1]
        steps = np.where(earlier, steps - unheard[1:, None], -np.inf)
        breath = np.log(_BREATH_PROBABILITY) if seconds < _LONGEST_BREATH_SECONDS else -np.inf
        np.fill_diagonal(steps, breath)
        return steps

    moves = [between(seconds) for seconds in np.diff(before)]
    forward = [_pace(before[0], spoken * rate) + unheard[:-1] + heard[0]]
    for move, at in zip(moves, heard[1:], strict=True):
        forward.append(np.logaddexp.reduce(forward[-1][:, None] + move, axis=0) + at)
    rest = _pace(speech.seconds - before[-1], (speech.all_spoken - spoken) * rate)
    backward = [rest + unheard[-1] - unheard[1:]]
    for move, at in zip(reversed(moves), reversed(heard[1:]), strict=True):
        backward.append(np.logaddexp.reduce(move + at + backward[-1], axis=1))
    joint = np.array(forward) + np.array(backward[::-1])
    total = np.logaddexp.reduce(joint[0])
    # There may be no way to place the pauses, as with more pauses than words.
    probabilities: _Floats = np.exp(joint - total) if np.isfinite(total) else np.zeros(joint.shape)
    return probabilities


def _pace(seconds: float, expected_seconds: _Floats) -> _Floats:
    """Log-density of the time that a stretch of speech takes."""
    expected = np.maximum(expected_seconds, 0.0)
    variance = (
        _EDGE_DEVIATION_SECONDS**2
        + _SOUND_DEVIATION**2 * expected
        + (_RATE_DEVIATION * expected) ** 2
    )
    density: _Floats = -0.5 * (np.square(seconds - expected) / variance + np.log(variance))
    return density
