"""Read, clean and write audio files, without TensorFlow.

`read_recording` reads a whole file, and `open_stream` one of any length in blocks. `audio_writer`
writes piece by piece and atomically, in the format of the extension.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from myxtts.audio import ffmpeg
from myxtts.config.config import AudioConfig
from myxtts.config.schema import did_you_mean
from myxtts.errors import DataError
from myxtts.files import atomic_file, require_creatable

FloatArray = npt.NDArray[np.float32]

# A longer reference or clip is a mistake, or an attempt to exhaust memory.
LONGEST_AUDIO_SECONDS = 3_600
# An hour at 48 kHz; the sample rate in a header may be wrong.
_MAX_SAMPLES = LONGEST_AUDIO_SECONDS * 48_000
_BLOCK_SAMPLES = 1 << 22
_BLOCK_SECONDS = 10.0
_LEVEL_WINDOW_SECONDS = 0.02
# Level below which audio counts as silence; ordinary rooms are quieter.
_SILENCE_BELOW_PEAK_DB = 40.0
# Kept before and after the sound when silence is trimmed.
_MARGIN_SECONDS = 0.05
# RMS level of the louder parts, as in broadcasting; leaves headroom for peaks.
_LOUDNESS_DBFS = -23.0
_PEAK_LIMIT = 0.99
# Full scale is 1; integer samples stored as floats reach some ten thousands.
_LARGEST_SAMPLE = 1e6
# Programs that write to a pipe do not know the size and declare one this large.
_STREAMED_SIZE_BYTES = 0x7FFF_0000
_FIRST_BYTES = 512
# The only bytes below a space that occur in text.
_TEXT_BYTES = bytes([*b"\t\n\r", *range(32, 127), *range(128, 256)])


class Format(NamedTuple):
    """libsndfile's names for a format."""

    name: str
    subtype: str


FORMATS = {
    ".wav": Format("WAV", "PCM_16"),
    ".flac": Format("FLAC", "PCM_16"),
    ".ogg": Format("OGG", "VORBIS"),
    ".mp3": Format("MP3", "MPEG_LAYER_III"),
}
AUDIO_ENDINGS = tuple(ending.removeprefix(".") for ending in FORMATS)


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
    """Audio declared in the header and missing in the file."""

    def at_rate(self, sample_rate_hz: int) -> FloatArray:
        if self.sample_rate_hz == sample_rate_hz:
            return self.samples
        resampled = soxr.resample(self.samples, self.sample_rate_hz, sample_rate_hz)
        return np.ascontiguousarray(resampled, np.float32)


def read_audio(file: Path, sample_rate_hz: int) -> FloatArray:
    """Return mono samples in [-1, 1] at the given rate."""
    return read_recording(file).at_rate(sample_rate_hz)


def read_recording(file: Path) -> Recording:
    """Read a whole file, in any format that libsndfile or ffmpeg reads.

    The header may declare more or less than the file contains, so it is decoded block by block.
    """
    file = Path(file)
    try:
        with open(file, "rb") as stream:
            if os.fstat(stream.fileno()).st_size == 0:
                raise UnusableAudioError(
                    f"{file}: empty file; record it again or remove it", "empty audio"
                )
            of_ffmpeg = ffmpeg.is_for_ffmpeg(file)
            source = ffmpeg.decode(file, LONGEST_AUDIO_SECONDS) if of_ffmpeg else stream.fileno()
            with soundfile.SoundFile(source, closefd=False) as sound:
                sample_rate_hz, declared = sound.samplerate, sound.frames
                limit = min(_MAX_SAMPLES, LONGEST_AUDIO_SECONDS * sample_rate_hz)
                mono = _decode(file, sound, limit) if declared <= limit else None
            if mono is None or mono.size > limit:
                raise UnusableAudioError(
                    f"{file}: {declared / sample_rate_hz:.0f} s long, expected at most "
                    f"{limit / sample_rate_hz:.0f} s; cut it into sentences",
                    "clip too long",
                )
            missing_seconds = _missing_wav_seconds(stream)
    except (FileNotFoundError, NotADirectoryError):
        raise UnusableAudioError(f"{file}: no such file", "missing audio") from None
    except ffmpeg.FfmpegError as error:
        raise UnusableAudioError(f"{file}: cannot read audio ({error})") from None
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


def _decode(file: Path, sound: soundfile.SoundFile, limit: int) -> FloatArray:
    """Decode to mono block by block, and stop beyond `limit`."""
    block_frames = max(1, _BLOCK_SAMPLES // sound.channels)
    blocks = [np.zeros(0, np.float32)]
    try:
        while sum(block.size for block in blocks) <= limit:
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
    """Return the message of libsndfile without file name and prefix."""
    if isinstance(error, soundfile.LibsndfileError):
        text: str = error.error_string
        return text.removeprefix("Error : ").rstrip(".")
    return getattr(error, "strerror", None) or str(error)


def _missing_wav_seconds(stream: IO[bytes]) -> float:
    """Return how much more audio a WAV header declares than follows; libsndfile ignores that."""
    stream.seek(0)
    head = stream.read(12)
    if head[:4] != b"RIFF" or head[8:] != b"WAVE":
        return 0.0
    bytes_per_second = 0
    while len(chunk := stream.read(8)) == 8:
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


@dataclass(frozen=True)
class AudioStream:
    """A recording as consecutive blocks of mono samples."""

    sample_rate_hz: int
    declared_seconds: float | None
    """Length in the header, of the video track if that is longer; None if it has none."""
    whole_seconds: float | None
    """Length of the audio of an undamaged file; None if the header does not give it reliably."""
    blocks: Iterator[FloatArray]


@contextlib.contextmanager
def open_stream(file: Path) -> Iterator[AudioStream]:
    """Open a recording of any length.

    Raises UnusableAudioError, also while the blocks of a damaged file are read.
    """
    try:
        with contextlib.ExitStack() as stack:
            stream = stack.enter_context(open(file, "rb"))
            start = os.read(stream.fileno(), _FIRST_BYTES)
            os.lseek(stream.fileno(), 0, os.SEEK_SET)
            if not start:
                raise OSError(errno.EINVAL, "the file is empty")
            # No audio format begins with plain text, which ffmpeg takes seconds to reject.
            if not start.translate(None, _TEXT_BYTES):
                raise OSError(errno.EINVAL, "a text, expected audio; a page or a Git LFS pointer?")
            sound = None
            if not ffmpeg.is_for_ffmpeg(file):
                try:
                    sound = soundfile.SoundFile(stream.fileno(), closefd=False)
                except soundfile.LibsndfileError as error:
                    # The extension may be wrong, or ffmpeg may read the format.
                    if not ffmpeg.is_installed():
                        raise ffmpeg.FfmpegError(
                            f"{_cause(error)}; ffmpeg reads more formats, but is not installed"
                        ) from None
            if sound is None:
                track = ffmpeg.first_track(file)
                blocks = _decoded_blocks(file, track.sample_rate_hz)
                yield AudioStream(track.sample_rate_hz, track.file_seconds, track.seconds, blocks)
            else:
                stack.enter_context(sound)
                seconds = sound.frames / sound.samplerate
                # The length of an MP3 is an estimate.
                whole_seconds = None if sound.format == "MP3" else seconds
                yield AudioStream(sound.samplerate, seconds, whole_seconds, _read_blocks(sound))
    except ffmpeg.FfmpegError as error:
        raise UnusableAudioError(f"{file}: cannot read audio ({error})") from None
    except (soundfile.LibsndfileError, OSError) as error:
        raise UnusableAudioError(f"{file}: cannot read audio ({_cause(error)})") from None


def _read_blocks(sound: soundfile.SoundFile) -> Iterator[FloatArray]:
    frames = max(1, int(_BLOCK_SECONDS * sound.samplerate))
    while True:
        block = sound.read(frames, dtype="float32", always_2d=True)
        if len(block):
            yield _without_bad_samples(block.mean(axis=1, dtype=np.float32))
        if len(block) < frames:
            return


def _decoded_blocks(file: Path, sample_rate_hz: int) -> Iterator[FloatArray]:
    block_bytes = max(1, int(_BLOCK_SECONDS * sample_rate_hz)) * 4
    with ffmpeg.mono_stream(file, sample_rate_hz) as stream:
        while content := stream.read(block_bytes):
            whole = content[: len(content) // 4 * 4]
            yield _without_bad_samples(np.frombuffer(whole, "<f4").astype(np.float32))


def _without_bad_samples(block: FloatArray) -> FloatArray:
    """Replace NaN and infinity by silence: one such sample would spoil every level around it."""
    usable = np.abs(block) <= _LARGEST_SAMPLE
    return block if usable.all() else np.where(usable, block, np.float32(0))


def clean_recording(waveform: FloatArray, audio: AudioConfig) -> FloatArray:
    """Trim silence and normalize loudness, to make different recordings consistent."""
    return clean_with_start(waveform, audio)[0]


def clean_with_start(waveform: FloatArray, audio: AudioConfig) -> tuple[FloatArray, int]:
    """Clean a recording, and return the number of samples trimmed at its beginning too."""
    rate_hz = audio.sample_rate_hz
    start, end = _sounding_span(waveform, rate_hz, _SILENCE_BELOW_PEAK_DB)
    return set_loudness(waveform[start:end], rate_hz, _LOUDNESS_DBFS), start


def trim_silence(waveform: FloatArray, sample_rate_hz: int, threshold_db: float) -> FloatArray:
    """Trim both ends while the level is `threshold_db` below the loudest window."""
    start, end = _sounding_span(waveform, sample_rate_hz, threshold_db)
    return waveform[start:end]


def _sounding_span(
    waveform: FloatArray, sample_rate_hz: int, threshold_db: float
) -> tuple[int, int]:
    window = window_samples(sample_rate_hz)
    levels = window_levels(waveform, sample_rate_hz)
    if levels.size == 0 or levels.max() <= 0:
        return 0, waveform.size
    loud = np.flatnonzero(levels > levels.max() * 10 ** (-threshold_db / 20))
    margin = int(_MARGIN_SECONDS * sample_rate_hz)
    start = max(0, loud[0] * window - margin)
    end = min(waveform.size, (loud[-1] + 1) * window + margin)
    return int(start), int(end)


def set_loudness(waveform: FloatArray, sample_rate_hz: int, loudness_dbfs: float) -> FloatArray:
    """Scale the louder half of the recording to a level, so pauses do not count.

    Peaks stay below full scale, so a recording with sharp peaks may end up quieter.
    """
    levels = window_levels(waveform, sample_rate_hz)
    if levels.size == 0 or levels.max() <= 0:
        return waveform
    loud = levels[levels >= np.median(levels)]
    gain = 10 ** (loudness_dbfs / 20) / float(np.sqrt(np.mean(loud**2)))
    return waveform * np.float32(min(gain, _PEAK_LIMIT / float(np.abs(waveform).max())))


def window_levels(waveform: FloatArray, sample_rate_hz: int) -> FloatArray:
    """Return the RMS of consecutive windows; a shorter remainder counts as a window."""
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


@contextlib.contextmanager
def audio_writer(
    file: Path, sample_rate_hz: int, tags: Mapping[str, str] | None = None
) -> Iterator[Callable[[FloatArray], None]]:
    """Yield a function that appends samples; the file appears when the block ends without error.

    `tags` are names that libsndfile knows, such as title, artist, comment and date.
    """
    require_writable(file)
    kind = FORMATS[file.suffix.lower()]
    try:
        # A file descriptor, because libsndfile swallows errors of Python file objects.
        with (
            atomic_file(file) as stream,
            soundfile.SoundFile(
                stream.fileno(),
                "w",
                sample_rate_hz,
                channels=1,
                format=kind.name,
                subtype=kind.subtype,
                closefd=False,
            ) as sound,
        ):
            for tag, value in (tags or {}).items():
                setattr(sound, tag, value)
            yield sound.write
    except soundfile.SoundFileError as error:
        raise DataError(f"{file}: cannot be written ({error})") from None
    except OSError as error:
        raise DataError(f"{file}: cannot be written ({error.strerror})") from None


def write_audio(
    file: Path, waveform: FloatArray, sample_rate_hz: int, tags: Mapping[str, str] | None = None
) -> None:
    with audio_writer(file, sample_rate_hz, tags) as write:
        write(waveform)


def require_writable(file: Path, endings: Iterable[str] = tuple(FORMATS)) -> None:
    """Raise an error for an unsupported extension or a path that cannot be written."""
    ending, expected = file.suffix.lower(), list(endings)
    if ending not in expected:
        found = f"its extension is {ending!r}" if ending else "its name has no extension"
        raise DataError(
            f"{file}: cannot be written ({found}, expected "
            f"{', '.join(expected)}{did_you_mean(ending, expected)})"
        )
    if file.is_dir():
        raise DataError(f"{file}: cannot be written (is a folder)")
    if not file.parent.is_dir():
        raise DataError(f"{file}: cannot be written (no folder {file.parent})")
    try:
        require_creatable(file)
    except OSError as error:
        raise DataError(f"{file}: cannot be written ({error.strerror})") from None
