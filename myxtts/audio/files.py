"""Audio files in and out, and the level and edges of a recording. No TensorFlow."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from myxtts.config.config import AudioConfig
from myxtts.errors import DataError
from myxtts.whole_files import whole_file

FloatArray = npt.NDArray[np.float32]

# A reference or clip longer than this is a mistake, or an attempt to fill the memory.
LONGEST_AUDIO_SECONDS = 3_600
# An hour at 48 kHz; a rate in a header may be anything.
_MOST_SAMPLES = LONGEST_AUDIO_SECONDS * 48_000
_BLOCK_SAMPLES = 1 << 22
_MOST_WAV_CHUNKS = 1_000
_LEVEL_WINDOW_SECONDS = 0.02
_PEAK_LIMIT = 0.99
# Full scale is 1; whole numbers that were written as fractions come to some ten thousands.
_LARGEST_SAMPLE = 1e6
# Programs that write to a pipe declare a size like this one, since they cannot know it.
_STREAMED_SIZE_BYTES = 0x7FFF_0000


class UnusableAudioError(DataError):
    """An audio file that gives no samples; `reason` is what such files are counted under."""

    def __init__(self, message: str, reason: str = "unreadable audio") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Recording:
    """An audio file as it is: one channel at its own rate."""

    samples: FloatArray
    sample_rate_hz: int
    missing_seconds: float
    """What the header declares beyond the samples that are there."""

    def at_rate(self, sample_rate_hz: int) -> FloatArray:
        if self.sample_rate_hz == sample_rate_hz:
            return self.samples
        resampled = soxr.resample(self.samples, self.sample_rate_hz, sample_rate_hz)
        return np.ascontiguousarray(resampled, np.float32)


def read_audio(file: Path, sample_rate_hz: int) -> FloatArray:
    """Mono samples in [-1, 1] at the given rate, from whatever libsndfile reads."""
    return read_recording(file).at_rate(sample_rate_hz)


def read_recording(file: Path) -> Recording:
    """The whole file, read once; what stands in the way is an UnusableAudioError."""
    file = Path(file)
    if _size_bytes(file) == 0:
        raise UnusableAudioError(
            f"{file}: an empty file; record it again or take it out", "empty audio"
        )
    try:
        with soundfile.SoundFile(file) as sound:
            sample_rate_hz = sound.samplerate
            most = min(_MOST_SAMPLES, LONGEST_AUDIO_SECONDS * sample_rate_hz)
            # What is declared is not always what is there.
            mono = _decode(file, sound, most) if sound.frames <= most else None
            if mono is None or mono.size > most:
                raise UnusableAudioError(
                    f"{file}: {sound.frames / sample_rate_hz:.0f} s long, "
                    f"expected at most {most / sample_rate_hz:.0f} s; cut it into sentences",
                    "clip too long",
                )
        missing_seconds = _missing_wav_seconds(file)
    except (soundfile.SoundFileError, OSError, ValueError, struct.error) as error:
        raise UnusableAudioError(
            f"{file}: not audio that can be read ({_cause(error)}); expected wav, flac, ogg or mp3"
        ) from None
    if mono.size == 0:
        raise UnusableAudioError(
            f"{file}: holds no samples; record it again or take it out", "empty audio"
        )
    if not np.abs(mono).max() <= _LARGEST_SAMPLE:
        raise UnusableAudioError(
            f"{file}: holds samples that are not numbers or far beyond full scale; export it again"
        )
    return Recording(np.ascontiguousarray(mono), sample_rate_hz, missing_seconds)


def _size_bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except (OSError, ValueError):  # a name that no file can have raises too
        raise UnusableAudioError(f"{file}: no such file", "missing audio") from None


def _decode(file: Path, sound: soundfile.SoundFile, most: int) -> FloatArray:
    """One channel, block by block: what a header declares may never come. Ends beyond `most`."""
    block_frames = max(1, _BLOCK_SAMPLES // sound.channels)
    blocks = [np.zeros(0, np.float32)]
    try:
        while sum(block.size for block in blocks) <= most:
            samples: FloatArray = sound.read(block_frames, dtype="float32", always_2d=True)
            with np.errstate(over="ignore", invalid="ignore"):  # the caller looks for these
                blocks.append(samples.mean(axis=1, dtype=np.float32))
            if len(samples) < block_frames:
                break
        return np.concatenate(blocks)
    except soundfile.SoundFileError as error:
        raise UnusableAudioError(
            f"{file}: breaks off or is damaged ({_cause(error)}); copy or export it again",
            "truncated audio",
        ) from None


def _cause(error: Exception) -> str:
    """libsndfile's own words, without the file's name and the prefixes around them."""
    if isinstance(error, soundfile.LibsndfileError):
        text: str = error.error_string
        return text.removeprefix("Error : ").rstrip(".")
    return str(error)


def _missing_wav_seconds(file: Path) -> float:
    """How much more sound a WAV header declares than follows it; libsndfile passes over that."""
    with open(file, "rb") as stream:
        head = stream.read(12)
        if head[:4] != b"RIFF" or head[8:] != b"WAVE":
            return 0.0
        bytes_per_second = 0
        for _ in range(_MOST_WAV_CHUNKS):
            if len(chunk := stream.read(8)) < 8:
                break
            name, size_bytes = struct.unpack("<4sI", chunk)
            if name == b"data":
                there_bytes = file.stat().st_size - stream.tell()
                if size_bytes >= _STREAMED_SIZE_BYTES or not bytes_per_second:
                    return 0.0
                return max(0, size_bytes - there_bytes) / bytes_per_second
            body_start = stream.tell()
            if name == b"fmt ":
                bytes_per_second = struct.unpack("<8xI", stream.read(12))[0]
            stream.seek(body_start + size_bytes + size_bytes % 2)
    return 0.0


def write_wav(file: Path, waveform: FloatArray, sample_rate_hz: int) -> None:
    """Writes 16-bit samples beside the target and moves them into place."""
    file = file.resolve()
    try:
        with whole_file(file) as stream:
            # By its descriptor: errors in a Python object would be lost inside the library.
            soundfile.write(
                stream.fileno(),
                waveform,
                sample_rate_hz,
                subtype="PCM_16",
                format="WAV",
                closefd=False,
            )
    except soundfile.SoundFileError as error:
        raise DataError(f"{file}: cannot be written ({error})") from None
    except OSError as error:
        raise DataError(f"{file}: cannot be written ({error.strerror})") from None


def clean_recording(waveform: FloatArray, audio: AudioConfig) -> FloatArray:
    """The recording without silence at its ends and at the configured level."""
    if audio.trim_silence_db is not None:
        waveform = trim_silence(waveform, audio.sample_rate_hz, audio.trim_silence_db)
    if audio.loudness_dbfs is not None:
        waveform = set_loudness(waveform, audio.sample_rate_hz, audio.loudness_dbfs)
    return waveform


def trim_silence(
    waveform: FloatArray, sample_rate_hz: int, threshold_db: float, margin_seconds: float = 0.05
) -> FloatArray:
    """Cuts both ends where the level stays `threshold_db` below the loudest window."""
    window = _level_window_samples(sample_rate_hz)
    levels = window_levels(waveform, sample_rate_hz)
    if levels.size == 0 or levels.max() <= 0:
        return waveform
    loud = np.flatnonzero(levels > levels.max() * 10 ** (-threshold_db / 20))
    margin = int(margin_seconds * sample_rate_hz)
    start = max(0, loud[0] * window - margin)
    end = min(waveform.size, (loud[-1] + 1) * window + margin)
    return waveform[start:end]


def set_loudness(waveform: FloatArray, sample_rate_hz: int, loudness_dbfs: float) -> FloatArray:
    """Scales to the level of the louder half of the recording; pauses do not count.

    The peak stays below full scale, so a recording with sharp peaks may end quieter.
    """
    levels = window_levels(waveform, sample_rate_hz)
    if levels.size == 0 or levels.max() <= 0:
        return waveform
    loud = levels[levels >= np.median(levels)]
    gain = 10 ** (loudness_dbfs / 20) / float(np.sqrt(np.mean(loud**2)))
    gain = min(gain, _PEAK_LIMIT / float(np.abs(waveform).max()))
    return waveform * np.float32(gain)


def window_levels(waveform: FloatArray, sample_rate_hz: int) -> FloatArray:
    """RMS of consecutive windows; a rest shorter than a window counts as one."""
    window = _level_window_samples(sample_rate_hz)
    whole = waveform.size - waveform.size % window
    windows = waveform[:whole].reshape(-1, window)
    power = np.einsum("ij,ij->i", windows, windows)
    if whole < waveform.size:
        rest = waveform[whole:]
        power = np.append(power, np.dot(rest, rest))
    return np.sqrt(power / np.float32(window))


def _level_window_samples(sample_rate_hz: int) -> int:
    return max(1, int(_LEVEL_WINDOW_SECONDS * sample_rate_hz))
