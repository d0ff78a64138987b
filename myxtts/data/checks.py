"""Checks of a single clip: errors exclude it from training, warnings do not.

Both training and `myxtts validate` call `check_clip` for each clip. Checks across clips are in
`data.corpus.corpus_checks`. No TensorFlow: checks run in lightweight worker processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from myxtts.audio.files import (
    FloatArray,
    Recording,
    UnusableAudioError,
    clean_recording,
    read_recording,
    window_levels,
)
from myxtts.audio.mel_geometry import mel_frame_count
from myxtts.config.config import AudioConfig, XTTSConfig
from myxtts.data.metadata import Utterance
from myxtts.errors import DataError
from myxtts.text.languages import normalise, other_script, script_name, suggested_language
from myxtts.text.tokenizer import (
    EDGE_TOKENS,
    describe_left_out,
    is_spoken,
    left_out_symbols,
    text_symbols,
    unsayable,
)
from myxtts.wording import quoted

TOO_MANY_FRAMES, TOO_MANY_TOKENS = "clip too long", "text too long"
OVER_LIMITS = frozenset((TOO_MANY_FRAMES, TOO_MANY_TOKENS))
"""Reasons that depend on the length limits and not on the clip alone."""

_SHORTEST_CLIP_SECONDS = 0.2
_SILENT_DBFS = -60.0
# Some programs write a byte or two less than the header declares; that is not truncation.
_TOLERATED_MISSING_SECONDS = 0.02
# Outside this range the text and the audio do not belong together.
_SYMBOLS_PER_SECOND = (1.0, 30.0)
# In shorter clips a pause around a single word would dominate the rate.
_SHORTEST_RATED_SECONDS = 2.0
# Clipping leaves runs of samples at the extreme value; a single such sample is just a peak.
_CLIPPED_RUN_SAMPLES = 3
_CLIPPED_SHARE = 0.0005
_SMALLEST_CLIPPED_PEAK = 0.5
_SAMPLE_STEP = 1.5 / 32_768
# Recorded speech has noise above this level, relative to its loudest band; upsampling adds none.
_EMPTY_BAND_DB = -75.0
# Quantisation noise of 16 bits, which is in every band even of a quiet recording.
_ROUNDING_POWER = 1 / (12 * 32_768**2)
_BAND_SHARE = 0.8
_SPECTRUM_SAMPLES = 1_024
_MOST_SYMBOLS_SHOWN = 10


@dataclass(frozen=True)
class Finding:
    """A problem in a corpus: its location, its category (`reason`) and the details."""

    source: str
    reason: str
    detail: str
    clips: int = 1
    """Number of clips affected."""

    severity: ClassVar[str] = "error"

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}: {self.detail}"


@dataclass(frozen=True)
class Rejection(Finding):
    """An error: the clip is excluded from training."""


@dataclass(frozen=True)
class Caution(Finding):
    """A warning: the clip is used for training but worth checking."""

    severity: ClassVar[str] = "warning"


@dataclass(frozen=True)
class CheckedClip:
    """A clip ready for training, or the reasons why it is rejected."""

    symbols: tuple[str, ...]
    recording: Recording | None
    waveform: FloatArray
    """Resampled, normalised and trimmed; empty if there is no recording."""
    rejections: tuple[Rejection, ...]

    @property
    def spoken_symbols(self) -> int:
        return sum(map(is_spoken, self.symbols))


def check_clip(item: Utterance, config: XTTSConfig) -> CheckedClip:
    """Reads a clip and reports every kind of error in it, the first of each kind."""
    recording, waveform, of_audio = _check_audio(item, config)
    symbols, of_text = _check_text(item, config)
    rejections = [problem for problem in (of_audio, of_text) if problem is not None]
    if not rejections:
        rejections += check_fit(item, symbols, waveform, config)
    return CheckedClip(symbols, recording, waveform, tuple(rejections))


def duplicate_audio(
    utterances: Iterable[Utterance], digests: Iterable[bytes]
) -> Iterator[Rejection]:
    """Clips with the same audio as an earlier clip; an empty digest matches nothing."""
    first_with: dict[bytes, Utterance] = {}
    for item, digest in zip(utterances, digests, strict=True):
        first = first_with.setdefault(digest, item) if digest else item
        if first is not item:
            text = "the same text" if first.text == item.text else "another text"
            yield Rejection(
                item.source, "duplicate audio", f"same audio as {first.source}, with {text}"
            )


def clip_cautions(item: Utterance, clip: CheckedClip, config: XTTSConfig) -> Iterator[Caution]:
    """Warnings about a usable clip."""
    strange = _unknown_symbols(item, config) if clip.symbols else []
    silent = left_out_symbols(item.text, item.language)
    if silent and clip.spoken_symbols:
        yield Caution(item.source, "symbols left out", describe_left_out(silent))
    if strange:
        shown = " ".join(strange[:_MOST_SYMBOLS_SHOWN])
        more = " ..." if len(strange) > _MOST_SYMBOLS_SHOWN else ""
        yield Caution(
            item.source,
            "unknown symbols",
            f"{shown}{more} cannot be pronounced in language {item.language}",
        )
    if clip.recording is None or clip.rejections:
        return
    share = clipped_share(clip.recording.samples)
    if share > _CLIPPED_SHARE:
        yield Caution(item.source, "clipped audio", f"{share:.1%} of the samples are clipped")
    bandwidth_hz = missing_band_hz(clip.recording, config.audio)
    if bandwidth_hz is not None:
        yield Caution(
            item.source,
            "band-limited audio",
            f"nothing above {bandwidth_hz / 1_000:.1f} kHz at {clip.recording.sample_rate_hz} Hz; "
            "upsampled from a lower rate?",
        )


def clipped_share(samples: FloatArray) -> float:
    """Fraction of samples in runs at the recording's maximum or minimum value."""
    if np.abs(samples).max() < _SMALLEST_CLIPPED_PEAK:
        return 0.0
    at_limit = (samples >= samples.max() - _SAMPLE_STEP) | (samples <= samples.min() + _SAMPLE_STEP)
    edges = np.flatnonzero(np.diff(at_limit, prepend=False, append=False))
    runs = edges[1::2] - edges[::2]
    return float(runs[runs >= _CLIPPED_RUN_SAMPLES].sum() / samples.size)


def missing_band_hz(recording: Recording, audio: AudioConfig) -> float | None:
    """Bandwidth of a recording if it leaves mel bands empty that its sample rate could fill."""
    if recording.samples.size < _SPECTRUM_SAMPLES:
        return None
    limit_hz = min(audio.highest_hz, recording.sample_rate_hz / 2)
    windows = np.lib.stride_tricks.sliding_window_view(recording.samples, _SPECTRUM_SAMPLES)
    shape = np.hanning(_SPECTRUM_SAMPLES)
    spectra = np.fft.rfft(windows[:: _SPECTRUM_SAMPLES // 2] * shape)
    power = np.mean(np.abs(spectra) ** 2, axis=0)
    bins_hz = np.fft.rfftfreq(_SPECTRUM_SAMPLES, 1 / recording.sample_rate_hz)
    rounding_power = _ROUNDING_POWER * float(np.sum(shape**2))
    empty_power = max(float(power.max()) * 10 ** (_EMPTY_BAND_DB / 10), 2 * rounding_power)
    filled = power > empty_power
    highest_hz = float(bins_hz[np.flatnonzero(filled)[-1]]) if filled.any() else 0.0
    return highest_hz if highest_hz < _BAND_SHARE * limit_hz else None


def _check_audio(
    item: Utterance, config: XTTSConfig
) -> tuple[Recording | None, FloatArray, Rejection | None]:
    try:
        recording = read_recording(item.audio_path)
    except UnusableAudioError as error:
        return None, np.zeros(0, np.float32), Rejection(item.source, error.reason, str(error))
    waveform = clean_recording(recording.at_rate(config.audio.sample_rate_hz), config.audio)
    return recording, waveform, _check_sound(item, recording, waveform, config)


def _check_sound(
    item: Utterance, recording: Recording, waveform: FloatArray, config: XTTSConfig
) -> Rejection | None:
    def reject(reason: str, detail: str) -> Rejection:
        return Rejection(item.source, reason, detail)

    audio = config.audio
    there_seconds = recording.samples.size / recording.sample_rate_hz
    sound_seconds = waveform.size / audio.sample_rate_hz
    frames = mel_frame_count(waveform.size, audio)
    longest_frames = config.data.max_mel_frames
    if recording.missing_seconds > _TOLERATED_MISSING_SECONDS:
        return reject(
            "truncated audio",
            f"{there_seconds:.2f} s of {there_seconds + recording.missing_seconds:.2f} s present",
        )
    if min(there_seconds, sound_seconds) < _SHORTEST_CLIP_SECONDS:
        return reject("too short", f"{sound_seconds:.2f} s of audio")
    level_dbfs = _loudest_dbfs(recording)
    if level_dbfs < _SILENT_DBFS:
        silent = np.isneginf(level_dbfs)
        return reject(
            "silent audio",
            "digital silence" if silent else f"the loudest part is {level_dbfs:.0f} dBFS",
        )
    if longest_frames is not None and frames > longest_frames:
        return reject(TOO_MANY_FRAMES, f"{frames} frames, data.max_mel_frames is {longest_frames}")
    return None


def _check_text(item: Utterance, config: XTTSConfig) -> tuple[tuple[str, ...], Rejection | None]:
    try:
        symbols = text_symbols(
            item.text, item.language, config.text.tokens, ezafe=config.text.ezafe
        )
    except DataError as error:
        return (), Rejection(item.source, "no pronunciation", str(error))
    tokens = len(symbols) + EDGE_TOKENS
    takes_latin = config.text.tokens == "phonemes"
    script = other_script(item.text, item.language, takes_latin=takes_latin)
    if script is not None:
        return symbols, Rejection(item.source, "another script", _in_script(item, script))
    if not any(map(is_spoken, symbols)):
        return symbols, Rejection(
            item.source, "empty text", f"nothing to say in {quoted(item.text)}"
        )
    if tokens > config.data.max_text_length:
        detail = f"{tokens} tokens, data.max_text_length is {config.data.max_text_length}"
        return symbols, Rejection(item.source, TOO_MANY_TOKENS, detail)
    return symbols, None


def _in_script(item: Utterance, script: str) -> str:
    return (
        f"{quoted(item.text)} is written in {script_name(script)} letters, but its language is "
        f"'{item.language}'; add --language {suggested_language(script)} or a language column"
    )


def check_fit(
    item: Utterance, symbols: tuple[str, ...], waveform: FloatArray, config: XTTSConfig
) -> Iterator[Rejection]:
    """Whether this text can belong to this recording."""
    audio = config.audio
    frames = mel_frame_count(waveform.size, audio)
    tokens = len(symbols) + EDGE_TOKENS
    seconds = waveform.size / audio.sample_rate_hz
    rate = sum(map(is_spoken, symbols)) / seconds
    slowest, fastest = _SYMBOLS_PER_SECOND
    if frames // config.model.frames_per_position < tokens:
        yield Rejection(
            item.source,
            "too short for its text",
            f"{frames} frames for {tokens} tokens; does this text belong to this clip?",
        )
    elif rate > fastest or (rate < slowest and seconds > _SHORTEST_RATED_SECONDS):
        yield Rejection(
            item.source,
            "text does not fit",
            f"{rate:.1f} {config.text.tokens} per second is an implausible speaking rate; "
            "does this text belong to this clip?",
        )


def _unknown_symbols(item: Utterance, config: XTTSConfig) -> list[str]:
    words = normalise(item.text, item.language)
    return unsayable(words, item.language, config.text.tokens)


def _loudest_dbfs(recording: Recording) -> float:
    """Level of the loudest window, without DC offset."""
    samples = recording.samples - recording.samples.mean()
    level = float(window_levels(samples, recording.sample_rate_hz).max())
    return 20 * float(np.log10(level)) if level > 0 else -np.inf
