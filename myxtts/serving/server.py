"""Listens for clients: the port is taken first, opened last, and given up in order."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp

from myxtts.errors import DeviceError
from myxtts.serving.limits import Limits
from myxtts.serving.slow_clients import limited_connection


def take_port(host: str, port: int) -> socket.socket:
    """A socket that has its port but does not listen yet: clients are refused until it does."""
    with contextlib.ExitStack() as stack:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listener = stack.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except (OSError, UnicodeError) as error:
            cause = getattr(error, "strerror", None) or error
            raise DeviceError(
                f"--host {host} --port {port}: {cause}; use another port, or 0 for a free one"
            ) from None
        stack.pop_all()  # stays open
    return listener


def make_server(
    app: ASGIApp, limits: Limits, on_ready: Callable[[], None] = lambda: None
) -> uvicorn.Server:
    """`run(sockets=[listener])` serves until Ctrl-C or SIGTERM and finishes what it answers."""
    # Clients must not be able to fill a log with their mistakes.
    for library in ("uvicorn.error", "python_multipart"):
        logging.getLogger(library).setLevel(logging.ERROR)
    config = uvicorn.Config(
        app,
        http=limited_connection(limits),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=int(limits.shutdown_seconds),
    )
    return _Server(config, on_ready)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stopping is the usual end of a server: the signal is not raised again afterwards."""
        is_main = threading.current_thread() is threading.main_thread()
        numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
