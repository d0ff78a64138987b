"""uvicorn's HTTP connection, with limits for clients that send or read slowly, or are too many."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from myxtts.serving.limits import Limits

_TOO_MANY = b'{"error": {"message": "too many connections; try again later"}}\n'
_TOO_MANY_HEAD = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)


def limited_connection(limits: Limits) -> type[H11Protocol]:
    """A class as uvicorn wants it."""

    class LimitedConnection(H11Protocol):
        _timer: asyncio.TimerHandle | None = None
        _write_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.write(_TOO_MANY_HEAD % len(_TOO_MANY) + _TOO_MANY)
                transport.close()
                return
            self._watch_receiving()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch_receiving()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch_receiving()

        def connection_lost(self, exc: Exception | None) -> None:
            for timer in (self._timer, self._write_timer):
                if timer is not None:
                    timer.cancel()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._write_timer = self.loop.call_later(limits.send_seconds, self._abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._write_timer is not None:
                self._write_timer.cancel()
                self._write_timer = None

        def _watch_receiving(self) -> None:
            """The time counts from the first moment that the client may send a request."""
            cycle = self.cycle
            is_receiving = cycle is None or cycle.response_complete or cycle.more_body
            if not is_receiving and self._timer is not None:
                self._timer.cancel()
                self._timer = None
            elif is_receiving and self._timer is None:
                self._timer = self.loop.call_later(limits.receive_seconds, self._abort)

        def _abort(self) -> None:
            self.transport.abort()

    return LimitedConnection
