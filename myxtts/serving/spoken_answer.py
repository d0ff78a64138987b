"""The answer with speech: made in a thread, sent while it is made, ended when nobody listens."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import Executor

import numpy as np
import soundfile
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from myxtts.audio.files import FloatArray
from myxtts.serving.admission import Admission
from myxtts.serving.answers import RefusedError
from myxtts.serving.encoding import (
    MEDIA_TYPES,
    STREAMED_FORMATS,
    Encoder,
    encode_whole,
    streaming_encoder,
)
from myxtts.serving.limits import Limits
from myxtts.serving.metrics import Metrics
from myxtts.serving.requests import SpeechRequest
from myxtts.serving.served_run import ServedRun
from myxtts.synthesis.work_queue import UnwantedError


class SpokenAnswer(Response):
    """Everything happens when it is sent, so that what it takes is given back there."""

    def __init__(
        self,
        run: ServedRun,
        asked: SpeechRequest,
        *,
        admission: Admission,
        pool: Executor,
        limits: Limits,
        metrics: Metrics,
    ) -> None:
        super().__init__()
        self._run, self._asked = run, asked
        self._admission, self._pool = admission, pool
        self._limits, self._metrics = limits, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.monotonic()
        with self._admission.slot():
            self._metrics.characters.add(len(self._asked.input))
            speech = _Speech(self._run, self._asked, is_alone=self._admission.in_progress == 1)
            listening = asyncio.create_task(_until_hung_up(receive, speech))
            clock = asyncio.get_running_loop().call_later(
                self._limits.request_seconds, speech.take_too_long
            )
            try:
                await self._send(speech, send, started)
            finally:
                clock.cancel()
                listening.cancel()
                speech.stop()
                # A thread may be in it still.
                with contextlib.suppress(RuntimeError):
                    self._pool.submit(speech.close)
                self._metrics.audio_seconds.add(speech.seconds)
        self._metrics.request_seconds.observe(time.monotonic() - started)

    async def _send(self, speech: _Speech, send: Send, started: float) -> None:
        try:
            first = await self._next(speech)
            self._metrics.first_byte_seconds.observe(time.monotonic() - started)
            await send(
                {"type": "http.response.start", "status": 200, "headers": _headers(speech, first)}
            )
            piece: bytes | None = first
            while piece is not None:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                piece = await self._next(speech)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        # Once audio was sent, the connection ends before the answer does, which clients notice.
        except RefusedError:
            if not speech.has_begun:
                raise
        except UnwantedError:
            if speech.is_hung_up:
                self._metrics.hang_ups.add()
            elif not speech.has_begun:
                raise RefusedError(
                    503,
                    f"took longer than {self._limits.request_seconds:g} s",
                    {"Retry-After": "5"},
                ) from None

    async def _next(self, speech: _Speech) -> bytes | None:
        return await asyncio.get_running_loop().run_in_executor(self._pool, speech.next)


class _Speech:
    """The bytes of one answer; its methods are called from threads, one at a time."""

    def __init__(self, run: ServedRun, asked: SpeechRequest, *, is_alone: bool) -> None:
        self._run, self._asked = run, asked
        name = asked.response_format
        self.is_streamed = name in STREAMED_FORMATS and asked.stream is not False
        self.media_type = MEDIA_TYPES[name]
        self.is_hung_up = False
        self.has_begun = False
        self.seconds = 0.0
        self._wanted = threading.Event()
        self._wanted.set()
        self._lock = threading.Lock()
        self._encoder: Encoder | None = None
        in_chunks = self.is_streamed and is_alone
        samples = run.speak(asked, self._wanted, in_chunks=in_chunks)
        self._pieces = self._streamed(samples) if self.is_streamed else self._whole(samples)

    def next(self) -> bytes | None:
        with self._lock:
            try:
                piece = next(self._pieces, None)
            except soundfile.SoundFileError:
                raise RefusedError(
                    400,
                    f"{self._asked.response_format}: cannot be made at "
                    f"{self._run.tts.sample_rate_hz} Hz; ask for wav",
                ) from None
            self.has_begun = True
            return piece

    def hang_up(self) -> None:
        self.is_hung_up = True
        self.stop()

    def take_too_long(self) -> None:
        self.stop()

    def stop(self) -> None:
        self._wanted.clear()

    def close(self) -> None:
        with self._lock:
            self._pieces.close()
            if self._encoder is not None:
                self._encoder.close()

    def _streamed(self, samples: Iterator[FloatArray]) -> Generator[bytes, None, None]:
        rate_hz = self._run.tts.sample_rate_hz
        self._encoder = streaming_encoder(self._asked.response_format, rate_hz)
        for piece in self._counted(samples):
            if encoded := self._encoder.add(piece):
                yield encoded
        yield self._encoder.end()

    def _whole(self, samples: Iterator[FloatArray]) -> Generator[bytes, None, None]:
        whole = np.concatenate([np.zeros(0, np.float32), *self._counted(samples)])
        tags = self._run.tags(self._asked)
        rate_hz = self._run.tts.sample_rate_hz
        yield encode_whole(self._asked.response_format, whole, rate_hz, tags)

    def _counted(self, samples: Iterator[FloatArray]) -> Iterator[FloatArray]:
        for piece in samples:
            self.seconds += piece.size / self._run.tts.sample_rate_hz
            yield piece


async def _until_hung_up(receive: Receive, speech: _Speech) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    speech.hang_up()


def _headers(speech: _Speech, first: bytes | None) -> list[tuple[bytes, bytes]]:
    headers = [(b"content-type", speech.media_type.encode()), (b"cache-control", b"no-store")]
    if not speech.is_streamed:
        headers.append((b"content-length", str(len(first or b"")).encode()))
    return headers
