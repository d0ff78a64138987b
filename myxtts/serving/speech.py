"""Answers with speech: made in threads, sent while made, ended when the client has gone."""

from __future__ import annotations

import asyncio
import contextlib
import io
import math
import os
import struct
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

import numpy as np
import soundfile
import soxr
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from myxtts.audio.files import FORMATS, FloatArray
from myxtts.serving.engine import Engine, Limits, SpeechRequest
from myxtts.synthesis.speaker import UnwantedError
from myxtts.web import CutOffError

_WEIGHT_OF_NEWEST = 0.2
_MAX_RETRY_SECONDS = 60


class Metrics:
    """Counters for Prometheus."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "myxtts_requests",
            "Answers by route and status.",
            ["route", "status"],
            registry=registry,
        )
        self.audio_seconds = Counter(
            "myxtts_audio_seconds", "Seconds of speech sent.", registry=registry
        )
        self.characters = Counter(
            "myxtts_characters", "Characters of text accepted.", registry=registry
        )
        self.hang_ups = Counter(
            "myxtts_hang_ups", "Clients that left before the end.", registry=registry
        )
        self.speech_seconds = Histogram(
            "myxtts_speech_seconds",
            "From a request for speech to its last byte.",
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
            registry=registry,
        )
        self.first_audio_seconds = Histogram(
            "myxtts_first_audio_seconds",
            "From a request for speech to its first audio.",
            buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=registry,
        )
        self.in_progress = Gauge(
            "myxtts_requests_in_progress",
            "Requests for speech in progress or waiting.",
            registry=registry,
        )


class Desk:
    """Admits as many requests as the limits allow. For one event loop, not thread-safe."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.metrics = limits, Metrics()
        self.pool = ThreadPoolExecutor(limits.waiting + 4, thread_name_prefix="speech")
        self._in_progress = 0
        self._usual_seconds = 1.0

    @contextlib.contextmanager
    def slot(self) -> Iterator[bool]:
        """Yield whether the request is the only one. All slots taken is status 429."""
        if self._in_progress >= self.limits.waiting:
            seconds = min(_MAX_RETRY_SECONDS, max(1, math.ceil(self._usual_seconds)))
            raise HTTPException(
                429,
                f"{self._in_progress} requests are waiting already; try again in {seconds} s",
                {"Retry-After": str(seconds)},
            )
        self._in_progress += 1
        self.metrics.in_progress.set(self._in_progress)
        started = time.monotonic()
        try:
            yield self._in_progress == 1
        finally:
            self._in_progress -= 1
            self.metrics.in_progress.set(self._in_progress)
            newest = time.monotonic() - started
            self._usual_seconds += _WEIGHT_OF_NEWEST * (newest - self._usual_seconds)


class SpeechResponse(Response):
    """Does everything when it is sent, so that whatever it takes is released there."""

    def __init__(self, engine: Engine, asked: SpeechRequest, desk: Desk) -> None:
        super().__init__()
        limit = desk.limits.text_characters
        if len(asked.input) > limit:
            raise HTTPException(
                400, f"input: {len(asked.input):,} characters, expected at most {limit:,}"
            )
        self._engine, self._asked, self._desk = engine, asked, desk
        self._is_streamed = asked.response_format in STREAMED_FORMATS and asked.stream is not False
        self._wanted = threading.Event()
        self._has_hung_up = self._has_begun = False
        self._job: Future[bytes | None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        metrics, limits = self._desk.metrics, self._desk.limits
        with self._desk.slot() as is_alone, metrics.speech_seconds.time():
            metrics.characters.inc(len(self._asked.input))
            self._wanted.set()
            loop = asyncio.get_running_loop()
            clock = loop.call_later(limits.request_seconds, self._wanted.clear)
            watching = asyncio.create_task(self._watch(receive))
            pieces = self._pieces(in_chunks=is_alone and self._is_streamed)
            try:
                await self._send(pieces, send)
            except UnwantedError:
                if self._has_hung_up:
                    metrics.hang_ups.inc()
                else:
                    took_too_long = f"took longer than {limits.request_seconds:g} s"
                    raise HTTPException(503, took_too_long, {"Retry-After": "5"}) from None
            finally:
                clock.cancel()
                watching.cancel()
                self._wanted.clear()
                if self._job is not None:  # closed by its thread, which may be in it still
                    self._job.add_done_callback(lambda _: pieces.close())

    async def _send(self, pieces: Iterator[bytes], send: Send) -> None:
        with self._desk.metrics.first_audio_seconds.time():
            piece = await self._next(pieces)
        media_type = MEDIA_TYPES[self._asked.response_format]
        headers = [(b"content-type", media_type.encode()), (b"cache-control", b"no-store")]
        if not self._is_streamed:
            headers.append((b"content-length", str(len(piece or b"")).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            while piece is not None:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                piece = await self._next(pieces)
        # Audio was sent already. The connection ends before the answer, which clients notice.
        except HTTPException as error:
            raise CutOffError(error.detail) from None
        except UnwantedError:
            if self._has_hung_up:
                raise
            raise CutOffError(f"longer than {self._desk.limits.request_seconds:g} s") from None
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _next(self, pieces: Iterator[bytes]) -> bytes | None:
        self._job = self._desk.pool.submit(next, pieces, None)
        return await asyncio.wrap_future(self._job)

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._has_hung_up = True
        self._wanted.clear()

    def _pieces(self, *, in_chunks: bool) -> Generator[bytes, None, None]:
        """Yield encoded audio. Runs in threads, one at a time."""
        engine, asked = self._engine, self._asked
        rate_hz, name = engine.tts.sample_rate_hz, asked.response_format
        samples = self._counted(engine.speak(asked, self._wanted, in_chunks=in_chunks))
        try:
            if self._is_streamed:
                with stream_encoder(name, rate_hz) as encoder:
                    for piece in samples:
                        if encoded := encoder.add(piece):
                            yield encoded
                    yield encoder.end()
            else:
                whole = np.concatenate([np.zeros(0, np.float32), *samples])
                yield encode(name, whole, rate_hz, engine.tags(asked))
        except soundfile.SoundFileError:
            raise HTTPException(
                400, f"{name}: cannot be made at {rate_hz} Hz; ask for wav"
            ) from None

    def _counted(self, samples: Iterator[FloatArray]) -> Iterator[FloatArray]:
        for piece in samples:
            self._desk.metrics.audio_seconds.inc(piece.size / self._engine.tts.sample_rate_hz)
            yield piece


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
