"""Checks a sentence that was just read into a microphone, and keeps it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import soundfile

from myxtts.audio.files import FloatArray
from myxtts.collecting.activity import HOP_SECONDS, band_levels_db, find_speech, hop_samples
from myxtts.collecting.cutting import Stretch, speech_runs
from myxtts.collecting.sound_checks import Figures, measure
from myxtts.errors import DataError
from myxtts.text.tokenizer import is_spoken, text_symbols

_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.1, 60.0
_LOWEST_RATE_HZ = 8_000
_MARGIN_SECONDS = 0.2
_SHORTEST_SPEECH_SECONDS = 0.4
_LOWEST_DBFS, _MOST_CLIPPED, _LEAST_SNR_DB = -42.0, 0.0005, 18.0
# Of speech; a careful reader has 8 to 16.
_PHONEMES_PER_SECOND = (4.0, 24.0)


@dataclass(frozen=True)
class Take:
    samples: FloatArray
    """From a little before the speech to a little after it."""
    sample_rate_hz: int
    figures: Figures
    problems: tuple[str, ...]
    """Names that the page has words for; empty if the take is good."""


def check_take(content: bytes, text: str, language: str) -> Take:
    """A wav as the browser sends it."""
    try:
        samples, rate_hz = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, ValueError, TypeError):
        raise DataError("the recording is no audio; expected a wav") from None
    mono = samples.mean(axis=1, dtype=np.float32)
    seconds = mono.size / rate_hz
    if not _SHORTEST_SECONDS <= seconds <= _LONGEST_SECONDS or rate_hz < _LOWEST_RATE_HZ:
        raise DataError(
            f"the recording has {seconds:.1f} s at {rate_hz} Hz, expected at most "
            f"{_LONGEST_SECONDS:g} s at {_LOWEST_RATE_HZ} Hz or more"
        )
    bands_db = band_levels_db(mono, rate_hz)
    activity = find_speech(bands_db, bands_db[:0])
    runs = speech_runs(activity, _LONGEST_SECONDS)
    if sum(run.seconds for run in runs) < _SHORTEST_SPEECH_SECONDS:
        whole = Stretch(0, len(bands_db))
        return Take(mono, rate_hz, measure(mono, rate_hz, activity, whole), ("no_speech",))
    margin = round(_MARGIN_SECONDS / HOP_SECONDS)
    clip = Stretch(max(0, runs[0].start - margin), min(len(bands_db), runs[-1].end + margin))
    hop = hop_samples(rate_hz)
    cut = mono[clip.start * hop : clip.end * hop]
    figures = measure(cut, rate_hz, activity, clip)
    spoken = sum(map(is_spoken, text_symbols(text, language, "phonemes")))
    rate = spoken / sum(run.seconds for run in runs)
    return Take(
        cut - np.float32(figures.dc_offset), rate_hz, figures, tuple(_problems(figures, rate))
    )


def _problems(figures: Figures, phonemes_per_second: float) -> Iterator[str]:
    if figures.level_dbfs < _LOWEST_DBFS:
        yield "too_quiet"
    if figures.clipped_share > _MOST_CLIPPED:
        yield "clipped"
    if figures.snr_db < _LEAST_SNR_DB:
        yield "noisy"
    slowest, fastest = _PHONEMES_PER_SECOND
    if not slowest <= phonemes_per_second <= fastest:
        yield "other_length"
