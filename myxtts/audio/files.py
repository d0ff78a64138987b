"""Reads, trims and normalises audio files. No TensorFlow."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from myxtts.audio.ffmpeg import FfmpegError, decode, is_for_ffmpeg
from myxtts.config.config import AudioConfig
from myxtts.errors import DataError

FloatArray = npt.NDArray[np.float32]

# A longer reference or clip is a mistake, or an attempt to exhaust memory.
LONGEST_AUDIO_SECONDS = 3_600
# An hour at 48 kHz; the sample rate in a header may be wrong.
_MOST_SAMPLES = LONGEST_AUDIO_SECONDS * 48_000
_BLOCK_SAMPLES = 1 << 22
_MOST_WAV_CHUNKS = 1_000
_LEVEL_WINDOW_SECONDS = 0.02
# The room of an ordinary recording is quieter than this.
_SILENCE_BELOW_PEAK_DB = 40.0
# RMS of the louder parts, as broadcasters have it: leaves room for peaks.
_LOUDNESS_DBFS = -23.0
_PEAK_LIMIT = 0.99
# Full scale is 1; integer samples stored as floats reach some ten thousands.
_LARGEST_SAMPLE = 1e6
# Programs that write to a pipe do not know the size and declare one this large.
_STREAMED_SIZE_BYTES = 0x7FFF_0000


class UnusableAudioError(DataError):
    """An unusable audio file; `reason` is its category in statistics."""

    def __init__(self, message: str, reason: str = "unreadable audio") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Recording:
    """An audio file downmixed to mono, at its own sample rate."""

    samples: FloatArray
    sample_rate_hz: int
    missing_seconds: float
    """How much more audio the header declares than the file contains."""

    def at_rate(self, sample_rate_hz: int) -> FloatArray:
        if self.sample_rate_hz == sample_rate_hz:
            return self.samples
        resampled = soxr.resample(self.samples, self.sample_rate_hz, sample_rate_hz)
        return np.ascontiguousarray(resampled, np.float32)


def read_audio(file: Path, sample_rate_hz: int) -> FloatArray:
    """Mono samples in [-1, 1] at the given rate, from any format that libsndfile reads."""
    return read_recording(file).at_rate(sample_rate_hz)


def read_recording(file: Path) -> Recording:
    """Reads a whole file; raises UnusableAudioError if that is not possible."""
    file = Path(file)
    try:
        # By descriptor: a device or a FIFO in place of the file would be read without an end.
        with _opened(file) as stream, _as_sound(file, stream) as sound:
            sample_rate_hz = sound.samplerate
            most = min(_MOST_SAMPLES, LONGEST_AUDIO_SECONDS * sample_rate_hz)
            # The header may declare more or less than the file contains.
            mono = _decode(file, sound, most) if sound.frames <= most else None
            if mono is None or mono.size > most:
                raise UnusableAudioError(
                    f"{file}: {sound.frames / sample_rate_hz:.0f} s long, "
                    f"expected at most {most / sample_rate_hz:.0f} s; cut it into sentences",
                    "clip too long",
                )
            missing_seconds = _missing_wav_seconds(stream)
    except (soundfile.SoundFileError, OSError, ValueError, struct.error) as error:
        raise UnusableAudioError(
            f"{file}: cannot read audio ({_cause(error)}); expected wav, flac, ogg or mp3"
        ) from None
    if mono.size == 0:
        raise UnusableAudioError(
            f"{file}: contains no samples; record it again or remove it", "empty audio"
        )
    if not np.abs(mono).max() <= _LARGEST_SAMPLE:
        raise UnusableAudioError(
            f"{file}: contains samples that are NaN or far beyond full scale; export it again"
        )
    return Recording(np.ascontiguousarray(mono), sample_rate_hz, missing_seconds)


def _as_sound(file: Path, stream: IO[bytes]) -> soundfile.SoundFile:
    """The opened file itself, or what ffmpeg makes of it."""
    if not is_for_ffmpeg(file):
        return soundfile.SoundFile(stream.fileno(), closefd=False)
    try:
        return soundfile.SoundFile(decode(file, LONGEST_AUDIO_SECONDS))
    except FfmpegError as error:
        raise UnusableAudioError(f"{file}: cannot read audio ({error})") from None


def _opened(file: Path) -> IO[bytes]:
    """Corpora may link to recordings elsewhere."""
    try:
        stream = open(file, "rb")  # noqa: SIM115 - closed by the caller
    except (FileNotFoundError, NotADirectoryError):
        raise UnusableAudioError(f"{file}: no such file", "missing audio") from None
    if os.fstat(stream.fileno()).st_size == 0:
        stream.close()
        raise UnusableAudioError(f"{file}: empty file; record it again or remove it", "empty audio")
    return stream


def _decode(file: Path, sound: soundfile.SoundFile, most: int) -> FloatArray:
    """Decodes to mono block by block, since the header may be wrong; stops beyond `most`."""
    block_frames = max(1, _BLOCK_SAMPLES // sound.channels)
    blocks = [np.zeros(0, np.float32)]
    try:
        while sum(block.size for block in blocks) <= most:
            samples: FloatArray = sound.read(block_frames, dtype="float32", always_2d=True)
            with np.errstate(over="ignore", invalid="ignore"):  # checked by the caller
                blocks.append(samples.mean(axis=1, dtype=np.float32))
            if len(samples) < block_frames:
                break
        return np.concatenate(blocks)
    except soundfile.SoundFileError as error:
        raise UnusableAudioError(
            f"{file}: truncated or damaged ({_cause(error)}); copy or export it again",
            "truncated audio",
        ) from None


def _cause(error: Exception) -> str:
    """The message of libsndfile without file name and prefix."""
    if isinstance(error, soundfile.LibsndfileError):
        text: str = error.error_string
        return text.removeprefix("Error : ").rstrip(".")
    return getattr(error, "strerror", None) or str(error)


def _missing_wav_seconds(stream: IO[bytes]) -> float:
    """How much more audio a WAV header declares than follows; libsndfile ignores that."""
    stream.seek(0)
    head = stream.read(12)
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        return 0.0
    bytes_per_second = 0
    for _ in range(_MOST_WAV_CHUNKS):
        if len(chunk := stream.read(8)) < 8:
            break
        name, size_bytes = struct.unpack("<4sI", chunk)
        if name == b"data":
            there_bytes = os.fstat(stream.fileno()).st_size - stream.tell()
            if size_bytes >= _STREAMED_SIZE_BYTES or not bytes_per_second:
                return 0.0
            return max(0, size_bytes - there_bytes) / bytes_per_second
        body_start = stream.tell()
        if name == b"fmt ":
            bytes_per_second = struct.unpack("<8xI", stream.read(12))[0]
        stream.seek(body_start + size_bytes + size_bytes % 2)
    return 0.0


def clean_recording(waveform: FloatArray, audio: AudioConfig) -> FloatArray:
    """Trim silence and normalize loudness, so that recordings made differently match."""
    trimmed = trim_silence(waveform, audio.sample_rate_hz, _SILENCE_BELOW_PEAK_DB)
    return set_loudness(trimmed, audio.sample_rate_hz, _LOUDNESS_DBFS)


def silence_before(waveform: FloatArray, sample_rate_hz: int) -> int:
    """Return the number of samples that `clean_recording` trims at the beginning."""
    return trimmed_span(waveform, sample_rate_hz, _SILENCE_BELOW_PEAK_DB)[0]


def trim_silence(
    waveform: FloatArray, sample_rate_hz: int, threshold_db: float, margin_seconds: float = 0.05
) -> FloatArray:
    """Trims both ends while the level is `threshold_db` below the loudest window."""
    start, end = trimmed_span(waveform, sample_rate_hz, threshold_db, margin_seconds)
    return waveform[start:end]


def trimmed_span(
    waveform: FloatArray, sample_rate_hz: int, threshold_db: float, margin_seconds: float = 0.05
) -> tuple[int, int]:
    """Return the first sample that `trim_silence` keeps and the one after the last."""
    window = window_samples(sample_rate_hz)
    levels = window_levels(waveform, sample_rate_hz)
    if levels.size == 0 or levels.max() <= 0:
        return 0, waveform.size
    loud = np.flatnonzero(levels > levels.max() * 10 ** (-threshold_db / 20))
    margin = int(margin_seconds * sample_rate_hz)
    start = max(0, loud[0] * window - margin)
    end = min(waveform.size, (loud[-1] + 1) * window + margin)
    return int(start), int(end)


def set_loudness(waveform: FloatArray, sample_rate_hz: int, loudness_dbfs: float) -> FloatArray:
    """Scales the louder half of the recording to a level, so pauses do not count.

    Peaks stay below full scale, so a recording with sharp peaks may end up quieter.
    """
    return waveform * np.float32(loudness_gain(waveform, sample_rate_hz, loudness_dbfs))


def loudness_gain(waveform: FloatArray, sample_rate_hz: int, loudness_dbfs: float) -> float:
    """The factor of `set_loudness`; 1 for silence."""
    levels = window_levels(waveform, sample_rate_hz)
    if levels.size == 0 or levels.max() <= 0:
        return 1.0
    loud = levels[levels >= np.median(levels)]
    gain = 10 ** (loudness_dbfs / 20) / float(np.sqrt(np.mean(loud**2)))
    return min(gain, _PEAK_LIMIT / float(np.abs(waveform).max()))


def window_levels(waveform: FloatArray, sample_rate_hz: int) -> FloatArray:
    """RMS of consecutive windows; a shorter remainder counts as a window."""
    window = window_samples(sample_rate_hz)
    whole = waveform.size - waveform.size % window
    windows = waveform[:whole].reshape(-1, window)
    power = np.einsum("ij,ij->i", windows, windows)
    if whole < waveform.size:
        rest = waveform[whole:]
        power = np.append(power, np.dot(rest, rest))
    return np.sqrt(power / np.float32(window))


def window_samples(sample_rate_hz: int) -> int:
    return max(1, int(_LEVEL_WINDOW_SECONDS * sample_rate_hz))
