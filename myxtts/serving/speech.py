"""Speech responses: computed in threads, streamed, and canceled when the client disconnects."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import math
import os
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import numpy as np
import soundfile
import soxr
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from myxtts.audio.files import FloatArray
from myxtts.serving.engine import Engine, Limits, SpeechRequest
from myxtts.synthesis.speaker import UnwantedError
from myxtts.web import CutOffError

_WEIGHT_OF_NEWEST = 0.2
_MAX_RETRY_SECONDS = 60
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """Counters for Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        names: dict[str, Any] = {"namespace": "myxtts", "registry": self.registry}
        self.requests = Counter(
            "requests", "Answers by route and status.", ["route", "status"], **names
        )
        self.audio_seconds = Counter("audio_seconds", "Seconds of speech sent.", **names)
        self.characters = Counter("characters", "Characters of text accepted.", **names)
        self.hang_ups = Counter("hang_ups", "Clients that disconnected early.", **names)
        self.in_progress = Gauge("requests_in_progress", "Requests running or waiting.", **names)
        names["buckets"] = _SECONDS
        self.speech_seconds = Histogram("speech_seconds", "Time to the last byte.", **names)
        self.first_audio_seconds = Histogram(
            "first_audio_seconds", "Time to the first byte.", **names
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
        """Yield whether the request is the only one; status 429 if no slot is free."""
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
    """Does all work while it is sent, so that its resources are released at the end."""

    def __init__(self, engine: Engine, asked: SpeechRequest, desk: Desk) -> None:
        super().__init__()
        limit = desk.limits.text_characters
        if len(asked.input) > limit:
            raise HTTPException(
                400, f"input: {len(asked.input):,} characters, expected at most {limit:,}"
            )
        if asked.response_format == "aac" and shutil.which("ffmpeg") is None:
            raise HTTPException(
                400, "response_format: aac needs ffmpeg on the server; use mp3 or opus"
            )
        self._engine, self._asked, self._desk = engine, asked, desk
        self._form = AUDIO_FORMATS[asked.response_format]
        self._is_streamed = self._form.is_streamed and asked.stream is not False
        self._wanted = threading.Event()
        self._has_hung_up = False
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
                if self._job is not None:  # closed by its thread, which may still be running it
                    self._job.add_done_callback(lambda _: pieces.close())

    async def _send(self, pieces: Iterator[bytes], send: Send) -> None:
        with self._desk.metrics.first_audio_seconds.time():
            piece = await self._next(pieces)
        is_sse = self._asked.stream_format == "sse"
        headers = {
            "content-type": "text/event-stream" if is_sse else self._form.media_type,
            "cache-control": "no-store",
            "myxtts-voice": quote(self._engine.voice(self._asked) or ""),
        }
        if not (self._is_streamed or is_sse):
            headers["content-length"] = str(len(piece or b""))
        lines = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": lines})
        try:
            while piece is not None:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                piece = await self._next(pieces)
        # Audio was already sent, so close the connection before the end; clients notice that.
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
        """Yield the encoded pieces. Runs in threads, one at a time."""
        pieces = self._encoded(in_chunks=in_chunks)
        if self._asked.stream_format == "audio":
            yield from pieces
            return
        with contextlib.closing(pieces):
            for piece in pieces:
                audio = base64.b64encode(piece).decode()
                yield _event({"type": "speech.audio.delta", "audio": audio})
        count = len(self._asked.input)
        usage = {"input_tokens": count, "output_tokens": 0, "total_tokens": count}
        yield _event({"type": "speech.audio.done", "usage": usage})

    def _encoded(self, *, in_chunks: bool) -> Generator[bytes, None, None]:
        engine, asked = self._engine, self._asked
        rate_hz, name = engine.tts.sample_rate_hz, asked.response_format
        samples = self._counted(engine.speak(asked, self._wanted, in_chunks=in_chunks))
        try:
            if self._is_streamed:
                with StreamEncoder(name, rate_hz) as encoder:
                    for piece in samples:
                        if encoded := encoder.add(piece):
                            yield encoded
                    yield encoder.end()
            else:
                whole = np.concatenate([np.zeros(0, np.float32), *samples])
                yield encode(name, whole, rate_hz, engine.tags(asked))
        except (soundfile.SoundFileError, subprocess.SubprocessError):
            raise HTTPException(400, f"{name}: does not support {rate_hz} Hz; use wav") from None

    def _counted(self, samples: Iterator[FloatArray]) -> Iterator[FloatArray]:
        for piece in samples:
            self._desk.metrics.audio_seconds.inc(piece.size / self._engine.tts.sample_rate_hz)
            yield piece


def _event(content: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(content)}\n\n".encode()


class AudioFormat(NamedTuple):
    media_type: str
    is_streamed: bool
    name: str = ""
    """libsndfile's name, as for the subtype."""
    subtype: str = ""
    rate_hz: int | None = None
    """None uses the rate of the model."""


# Clients of OpenAI's API expect 16 bits, mono, little-endian.
PCM_RATE_HZ = 24_000
AUDIO_FORMATS = {
    "mp3": AudioFormat("audio/mpeg", True, "MP3", "MPEG_LAYER_III"),
    # Opus supports only five rates.
    "opus": AudioFormat("audio/ogg", True, "OGG", "OPUS", 24_000),
    "aac": AudioFormat("audio/aac", False),
    "flac": AudioFormat("audio/flac", False, "FLAC", "PCM_16"),
    "wav": AudioFormat("audio/wav", True, "WAV", "PCM_16"),
    "pcm": AudioFormat(f"audio/L16; rate={PCM_RATE_HZ}; channels=1", True, rate_hz=PCM_RATE_HZ),
}
# The encoded bytes of this many samples fit into a pipe.
_PIECE_SAMPLES = 8_192
_PIPE_BYTES = 1 << 16
_FFMPEG_SECONDS = 60


def encode(
    format_name: str, samples: FloatArray, sample_rate_hz: int, tags: Mapping[str, str]
) -> bytes:
    """Return a file with its length and tags. `pcm` and `aac` have neither."""
    form = AUDIO_FORMATS[format_name]
    if form.rate_hz is not None:
        samples = soxr.resample(samples, sample_rate_hz, form.rate_hz)
    rate_hz = form.rate_hz or sample_rate_hz
    if format_name == "pcm":
        return _as_pcm(samples)
    if format_name == "aac":
        source = ["-f", "s16le", "-ar", str(rate_hz), "-ac", "1", "-i", "pipe:0"]
        command = ["ffmpeg", "-v", "error", *source, "-f", "adts", "pipe:1"]
        return subprocess.run(
            command,
            input=_as_pcm(samples),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_FFMPEG_SECONDS,
            check=True,
        ).stdout
    file = io.BytesIO()
    with soundfile.SoundFile(
        file, "w", rate_hz, channels=1, format=form.name, subtype=form.subtype
    ) as sound:
        for name, value in tags.items():
            setattr(sound, name, value)
        sound.write(samples)
    return file.getvalue()


def _as_pcm(samples: FloatArray) -> bytes:
    return (np.clip(samples, -1.0, 1.0) * 32_767).round().astype("<i2").tobytes()


class StreamEncoder:
    """Encodes samples as bytes; a context manager.

    libsndfile writes MP3 and Opus into a pipe, so it cannot seek back into data that was sent.
    """

    def __init__(self, format_name: str, sample_rate_hz: int) -> None:
        form = AUDIO_FORMATS[format_name]
        rate_hz = form.rate_hz or sample_rate_hz
        self._resampler = soxr.ResampleStream(sample_rate_hz, rate_hz, 1, dtype="float32")
        self._header = _wav_header(rate_hz) if format_name == "wav" else b""
        self._sound = None
        if format_name in ("mp3", "opus"):
            self._read_end, write_end = os.pipe()
            os.set_blocking(self._read_end, False)
            # Without a header, players compute the length of an MP3 from a constant bit rate.
            constant = {"compression_level": 0.5, "bitrate_mode": "CONSTANT"}
            self._sound = soundfile.SoundFile(
                write_end,
                "w",
                rate_hz,
                channels=1,
                format=form.name,
                subtype=form.subtype,
                **(constant if format_name == "mp3" else {}),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._sound is not None:
            # Closing flushes the encoder. Without a reader that fails instead of blocking.
            os.close(self._read_end)
            with contextlib.suppress(soundfile.SoundFileError):
                self._sound.close()

    def add(self, samples: FloatArray, *, is_last: bool = False) -> bytes:
        samples = self._resampler.resample_chunk(samples, last=is_last)
        header, self._header = self._header, b""
        if self._sound is None:
            return header + _as_pcm(samples)
        encoded = b""
        for first in range(0, samples.size, _PIECE_SAMPLES):
            self._sound.write(samples[first : first + _PIECE_SAMPLES])
            encoded += self._read()
        return encoded

    def end(self) -> bytes:
        encoded = self.add(np.zeros(0, np.float32), is_last=True)
        if self._sound is not None:
            self._sound.close()
            encoded += self._read()
        return encoded

    def _read(self) -> bytes:
        try:
            return os.read(self._read_end, _PIPE_BYTES)
        except BlockingIOError:
            return b""


def _wav_header(sample_rate_hz: int) -> bytes:
    """Return a header with an unknown length."""
    form = struct.pack("<HHIIHH", 1, 1, sample_rate_hz, sample_rate_hz * 2, 2, 16)
    unknown = b"\xff" * 4
    return b"RIFF%bWAVEfmt %b%bdata%b" % (unknown, b"\x10\0\0\0", form, unknown)
