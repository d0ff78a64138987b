"""Samples to the bytes of an answer: piece by piece while it is spoken, or as a whole file.

A streamed wav does not know its length: its header says so, as programs do that write to a pipe.
A flac is never streamed: without its length many programs do not read it.
"""

from __future__ import annotations

import contextlib
import io
import os
import struct
from collections.abc import Iterator, Mapping
from typing import Protocol

import numpy as np
import soundfile
import soxr

from myxtts.audio.files import FloatArray
from myxtts.audio.formats import FORMATS

# What clients of OpenAI's API expect of `pcm`: 16 bits, mono, little-endian.
PCM_RATE_HZ = 24_000
_UNKNOWN_BYTES = 0xFFFF_FFFF
# The bytes of so many samples fit into a pipe.
_PIECE_SAMPLES = 8_192
_PIPE_BYTES = 1 << 16

MEDIA_TYPES = {
    "wav": "audio/wav",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "pcm": f"audio/L16; rate={PCM_RATE_HZ}; channels=1",
}
STREAMED_FORMATS = ("wav", "mp3", "pcm")


class Encoder(Protocol):
    def add(self, samples: FloatArray) -> bytes: ...

    def end(self) -> bytes: ...

    def close(self) -> None:
        """Frees what it holds; may be called at any time, and again."""


def streaming_encoder(format_name: str, sample_rate_hz: int) -> Encoder:
    if format_name == "pcm":
        return _Pcm(sample_rate_hz)
    if format_name == "wav":
        return _Wav(sample_rate_hz)
    return _Mp3(sample_rate_hz)


def encode_whole(
    format_name: str, samples: FloatArray, sample_rate_hz: int, tags: Mapping[str, str]
) -> bytes:
    """A file with its length and tags; `pcm` has neither."""
    if format_name == "pcm":
        encoder = _Pcm(sample_rate_hz)
        return encoder.add(samples) + encoder.end()
    kind = FORMATS[f".{format_name}"]
    file = io.BytesIO()
    with soundfile.SoundFile(
        file, "w", sample_rate_hz, channels=1, format=kind.name, subtype=kind.subtype
    ) as sound:
        for name, value in tags.items():
            setattr(sound, name, value)
        sound.write(samples)
    return file.getvalue()


class _Pcm:
    def __init__(self, sample_rate_hz: int) -> None:
        self._resampler = soxr.ResampleStream(sample_rate_hz, PCM_RATE_HZ, 1, dtype="float32")

    def add(self, samples: FloatArray) -> bytes:
        return _as_int16(self._resampler.resample_chunk(samples))

    def end(self) -> bytes:
        return _as_int16(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))

    def close(self) -> None:
        pass


class _Wav:
    def __init__(self, sample_rate_hz: int) -> None:
        form = struct.pack("<HHIIHH", 1, 1, sample_rate_hz, sample_rate_hz * 2, 2, 16)
        size = struct.pack("<I", _UNKNOWN_BYTES)
        self._header = b"RIFF%bWAVEfmt %b%bdata%b" % (size, struct.pack("<I", 16), form, size)

    def add(self, samples: FloatArray) -> bytes:
        header, self._header = self._header, b""
        return header + _as_int16(samples)

    def end(self) -> bytes:
        return self._header

    def close(self) -> None:
        pass


class _Mp3:
    """libsndfile writes into a pipe, so it never goes back to what was sent."""

    def __init__(self, sample_rate_hz: int) -> None:
        kind = FORMATS[".mp3"]
        self._end_of_pipe, start = os.pipe()
        os.set_blocking(self._end_of_pipe, False)
        # A constant bit rate tells players the length of what has no header for it.
        self._sound = soundfile.SoundFile(
            start,
            "w",
            sample_rate_hz,
            channels=1,
            format=kind.name,
            subtype=kind.subtype,
            compression_level=0.5,
            bitrate_mode="CONSTANT",
        )

    def add(self, samples: FloatArray) -> bytes:
        return b"".join(self._bytes_of(samples))

    def end(self) -> bytes:
        self._sound.close()
        rest = self._taken()
        self.close()
        return rest

    def close(self) -> None:
        # Closing writes what is left; nobody may be there to read it.
        if self._end_of_pipe >= 0:
            os.close(self._end_of_pipe)
            self._end_of_pipe = -1
        with contextlib.suppress(soundfile.SoundFileError):
            self._sound.close()

    def _bytes_of(self, samples: FloatArray) -> Iterator[bytes]:
        for first in range(0, samples.size, _PIECE_SAMPLES):
            self._sound.write(samples[first : first + _PIECE_SAMPLES])
            yield self._taken()

    def _taken(self) -> bytes:
        try:
            return os.read(self._end_of_pipe, _PIPE_BYTES)
        except BlockingIOError:
            return b""


def _as_int16(samples: FloatArray) -> bytes:
    limited = np.clip(samples, -1.0, 1.0)
    return (limited * 32_767).round().astype("<i2").tobytes()
