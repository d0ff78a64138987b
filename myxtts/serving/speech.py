"""Answers with speech: made in threads, sent while made, ended when the client has gone."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import soundfile
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from myxtts.audio.files import FloatArray
from myxtts.serving.encoding import MEDIA_TYPES, STREAMED_FORMATS, encode, stream_encoder
from myxtts.serving.engine import Engine
from myxtts.serving.requests import Limits, SpeechRequest
from myxtts.synthesis.work_queue import UnwantedError
from myxtts.web.server import CutOffError

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
