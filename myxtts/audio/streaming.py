"""Reads recordings of any length in blocks: memory does not grow with them. No TensorFlow."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from myxtts.audio.ffmpeg import (
    FfmpegError,
    first_track,
    is_for_ffmpeg,
    is_installed,
    mono_stream,
)
from myxtts.audio.files import FloatArray, UnusableAudioError

_BLOCK_SECONDS = 10.0
_BYTES_PER_SAMPLE = 4
_GUESSED_LENGTHS = ("MP3",)
_FIRST_BYTES = 512
# UTF-8 has no bytes below a space but these.
_TEXT_BYTES = bytes([*b"\t\n\r", *range(32, 127), *range(128, 256)])
# Full scale is 1; integer samples stored as floats reach some ten thousands.
_LARGEST_SAMPLE = 1e6


@dataclass(frozen=True)
class AudioStream:
    """A recording as consecutive blocks of mono samples."""

    sample_rate_hz: int
    declared_seconds: float | None
    """What the header says, of pictures perhaps; None if it says nothing."""
    whole_seconds: float | None
    """Of the sound, if nothing of the file is lost; None if the header does not say it surely."""
    blocks: Iterator[FloatArray]


@contextlib.contextmanager
def open_stream(file: Path) -> Iterator[AudioStream]:
    """Raises UnusableAudioError here, or while the blocks of a damaged file are read."""
    try:
        with contextlib.ExitStack() as stack:
            yield _opened(file, stack)
    except FfmpegError as error:
        raise UnusableAudioError(f"{file}: cannot read audio ({error})") from None
    except soundfile.LibsndfileError as error:
        raise UnusableAudioError(f"{file}: cannot read audio ({_cause(error)})") from None
    except OSError as error:
        raise UnusableAudioError(f"{file}: cannot read audio ({error.strerror or error})") from None


def _opened(file: Path, stack: contextlib.ExitStack) -> AudioStream:
    stream = stack.enter_context(open(file, "rb"))  # noqa: SIM115
    _refuse_at_once(stream.fileno())
    if not is_for_ffmpeg(file):
        try:
            sound = soundfile.SoundFile(stream.fileno(), closefd=False)
        except soundfile.LibsndfileError as error:
            # The ending of a name may be wrong, or of a format that ffmpeg knows.
            if not is_installed():
                raise FfmpegError(
                    f"{_cause(error)}; ffmpeg reads more formats, but is not installed"
                ) from None
        else:
            stack.enter_context(sound)
            seconds = sound.frames / sound.samplerate
            whole_seconds = None if sound.format in _GUESSED_LENGTHS else seconds
            return AudioStream(sound.samplerate, seconds, whole_seconds, _read(sound))
    track = first_track(file)
    blocks = _decoded(file, track.sample_rate_hz)
    return AudioStream(track.sample_rate_hz, track.file_seconds, track.seconds, blocks)


def _cause(error: soundfile.LibsndfileError) -> str:
    return str(error.error_string).removeprefix("Error : ").rstrip(".")


def _refuse_at_once(descriptor: int) -> None:
    """What is no sound at first sight: a program for each of many such files takes minutes."""
    start = os.read(descriptor, _FIRST_BYTES)
    os.lseek(descriptor, 0, os.SEEK_SET)
    if not start:
        raise OSError(errno.EINVAL, "the file is empty")
    # Every format of sound has bytes that no text has, in its first fields.
    if not start.translate(None, _TEXT_BYTES):
        raise OSError(errno.EINVAL, "a text, expected sound; a page or a pointer to the real file?")


def _read(sound: soundfile.SoundFile) -> Iterator[FloatArray]:
    frames = max(1, int(_BLOCK_SECONDS * sound.samplerate))
    while True:
        block = sound.read(frames, dtype="float32", always_2d=True)
        if len(block):
            yield _checked(block.mean(axis=1, dtype=np.float32))
        if len(block) < frames:
            return


def _decoded(file: Path, sample_rate_hz: int) -> Iterator[FloatArray]:
    block_bytes = max(1, int(_BLOCK_SECONDS * sample_rate_hz)) * _BYTES_PER_SAMPLE
    with mono_stream(file, sample_rate_hz) as stream:
        while content := stream.read(block_bytes):
            whole = len(content) - len(content) % _BYTES_PER_SAMPLE
            yield _checked(np.frombuffer(content[:whole], "<f4").astype(np.float32))


def _checked(block: FloatArray) -> FloatArray:
    """NaN and infinity as silence: one bad sample would spoil every level around it."""
    usable = np.abs(block) <= _LARGEST_SAMPLE
    return block if usable.all() else np.where(usable, block, np.float32(0))
