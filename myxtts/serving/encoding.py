"""Audio formats of an answer, as a stream or as a whole file.

A streamed wav has no length: its header says so, as that of any wav written to a pipe. flac is
never streamed, because many programs do not read one without a length.
"""

from __future__ import annotations

import contextlib
import io
import os
import struct
from collections.abc import Mapping
from typing import Self

import numpy as np
import soundfile
import soxr

from myxtts.audio.files import FloatArray
from myxtts.audio.formats import FORMATS

# Clients of OpenAI's API expect 16 bits, mono, little-endian.
PCM_RATE_HZ = 24_000
MEDIA_TYPES = {
    "wav": "audio/wav",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "pcm": f"audio/L16; rate={PCM_RATE_HZ}; channels=1",
}
STREAMED_FORMATS = ("wav", "mp3", "pcm")
# The encoded bytes of this many samples fit into a pipe.
_PIECE_SAMPLES = 8_192
_PIPE_BYTES = 1 << 16


def encode(
    format_name: str, samples: FloatArray, sample_rate_hz: int, tags: Mapping[str, str]
) -> bytes:
    """Return a file with its length and tags. `pcm` has neither."""
    if format_name == "pcm":
        with Pcm(sample_rate_hz) as encoder:
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


def stream_encoder(format_name: str, sample_rate_hz: int) -> Encoder:
    kinds: dict[str, type[Encoder]] = {"pcm": Pcm, "wav": Wav, "mp3": Mp3}
    return kinds[format_name](sample_rate_hz)


class Encoder:
    """Samples in, bytes out. A context that releases what the encoder holds."""

    def __init__(self, sample_rate_hz: int) -> None:
        self._rate_hz = sample_rate_hz

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def add(self, samples: FloatArray) -> bytes:
        return (np.clip(samples, -1.0, 1.0) * 32_767).round().astype("<i2").tobytes()

    def end(self) -> bytes:
        return b""


class Pcm(Encoder):
    def __init__(self, sample_rate_hz: int) -> None:
        self._resampler = soxr.ResampleStream(sample_rate_hz, PCM_RATE_HZ, 1, dtype="float32")

    def add(self, samples: FloatArray) -> bytes:
        return super().add(self._resampler.resample_chunk(samples))

    def end(self) -> bytes:
        return super().add(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))


class Wav(Encoder):
    def __init__(self, sample_rate_hz: int) -> None:
        form = struct.pack("<HHIIHH", 1, 1, sample_rate_hz, sample_rate_hz * 2, 2, 16)
        unknown = b"\xff" * 4
        self._header = b"RIFF%bWAVEfmt %b%bdata%b" % (unknown, b"\x10\0\0\0", form, unknown)

    def add(self, samples: FloatArray) -> bytes:
        header, self._header = self._header, b""
        return header + super().add(samples)

    def end(self) -> bytes:
        return self._header


class Mp3(Encoder):
    """libsndfile writes into a pipe, so it never returns to what was sent."""

    def __init__(self, sample_rate_hz: int) -> None:
        kind = FORMATS[".mp3"]
        self._read_end, write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        # Players work out the length from a constant bit rate, for there is no header with it.
        self._sound = soundfile.SoundFile(
            write_end,
            "w",
            sample_rate_hz,
            channels=1,
            format=kind.name,
            subtype=kind.subtype,
            compression_level=0.5,
            bitrate_mode="CONSTANT",
        )

    def __exit__(self, *error: object) -> None:
        # Closing writes what is left. Without a reader that is an error, and not a full pipe.
        os.close(self._read_end)
        with contextlib.suppress(soundfile.SoundFileError):
            self._sound.close()

    def add(self, samples: FloatArray) -> bytes:
        encoded = b""
        for first in range(0, samples.size, _PIECE_SAMPLES):
            self._sound.write(samples[first : first + _PIECE_SAMPLES])
            encoded += self._read()
        return encoded

    def end(self) -> bytes:
        self._sound.close()
        return self._read()

    def _read(self) -> bytes:
        try:
            return os.read(self._read_end, _PIPE_BYTES)
        except BlockingIOError:
            return b""
