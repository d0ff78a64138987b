"""uvicorn, set up for clients that are slow, hostile or gone."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import logging
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from myxtts.errors import DeviceError, printable

_LOGGER = logging.getLogger(__name__)
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_CONNECTIONS = 512
_IDLE_SECONDS = 60.0
_SHUTDOWN_SECONDS = 30
# Room for a percent-encoded text in the query of a GET request.
_HEAD_BYTES = 1 << 16
_WARNINGS_PER_MINUTE = 20


class CutOffError(Exception):
    """A response has started and cannot be completed; the reason is logged in one line."""


def add_error_handlers(app: FastAPI) -> None:
    """Answer all errors in the form of OpenAI's API."""

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> JSONResponse:
        return error_response(error.status_code, str(error.detail), error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        return error_response(400, f"{place}: {first['msg']}" if place else str(first["msg"]))

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> JSONResponse:
        return error_response(500, "internal error; the log of the server has the cause")


def bind(host: str, port: int) -> socket.socket:
    """Reserve a port. Clients are refused until the server listens."""
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
        stack.pop_all()  # keeps it open
    return listener


class Server(uvicorn.Server):
    """A server for `run(sockets=[listener])`, until Ctrl-C or SIGTERM.

    Responses in progress are finished first; a second Ctrl-C drops them.
    """

    def __init__(
        self,
        app: ASGIApp,
        on_ready: Callable[[], None] = lambda: None,
        *,
        connections: int = _CONNECTIONS,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=connections,
                timeout_keep_alive=5,
                timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
                h11_max_incomplete_event_size=_HEAD_BYTES,
            )
        )
        # Clients must not be able to fill the log. Guard logs what matters.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        logging.getLogger("python_multipart").setLevel(logging.ERROR)
        self._on_ready = on_ready
        self._idle_seconds = idle_seconds
        self._since: dict[Any, float] = {}

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        if counter % 5 == 0:
            self._drop_slow_clients()
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals():
            yield
            # A signal is the normal end of a server; uvicorn would raise it again.
            self._captured_signals.clear()

    def _drop_slow_clients(self) -> None:
        """Close connections that make no progress. uvicorn has no such limit before a request."""
        now, since = time.monotonic(), {}
        connections: list[Any] = list(self.server_state.connections)
        for connection in connections:
            cycle = connection.cycle
            if connection.flow is not None and connection.flow.write_paused:
                state = connection.transport.get_write_buffer_size()
            elif cycle is None or cycle.response_complete:
                state = "no request"
            elif cycle.more_body:
                state = "no body"
            else:
                continue
            key = (connection, cycle, state)
            since[key] = self._since.get(key, now)
            if now - since[key] > self._idle_seconds:
                connection.transport.abort()
        self._since = since


class RateLimit(logging.Filter):
    """Drop log records beyond a number per minute, and count them."""

    def __init__(self, records_per_minute: int = _WARNINGS_PER_MINUTE) -> None:
        super().__init__()
        self._limit = records_per_minute
        self._minute, self._passed, self._dropped = 0, 0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        minute = int(record.created // 60)
        if minute != self._minute:
            if self._dropped:
                record.msg = f"{record.msg} ({self._dropped:,} more messages in between)"
            self._minute, self._passed, self._dropped = minute, 0, 0
        self._passed += 1
        if self._passed > self._limit:
            self._dropped += 1
            return False
        return True


_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s:@/?#\[\]]+))(?::[0-9]{1,5})?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class AccessRules:
    token: str | None = None
    hosts: tuple[str, ...] = ()
    """Names of this server besides localhost and any IP address."""
    origins: tuple[str, ...] = ()
    """Other sites whose pages may use the server, such as https://example.org."""
    open_paths: tuple[str, ...] = ()
    """Paths that need no token. One that ends with a slash includes everything below it."""
    body_bytes: Callable[[Scope], int] = lambda scope: 1 << 20

    def allows_host(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        address, name = match[1], (match[2] or "").lower()
        if address is not None:
            return _is_address(address)
        return name == "localhost" or _is_address(name) or name in map(str.lower, self.hosts)

    def allows_origin(self, origin: str, host: str) -> bool:
        own = {f"{scheme}://{host.lower()}" for scheme in ("http", "https")}
        return origin.lower() in own or origin in self.origins

    def allows_token(self, authorization: str) -> bool:
        if self.token is None:
            return True
        scheme, _, found = authorization.partition(" ")
        same = hmac.compare_digest(found.strip().encode(), self.token.encode())
        return scheme.lower() == "bearer" and same

    def is_open(self, path: str) -> bool:
        return any(
            path == one or (one.endswith("/") and one != "/" and path.startswith(one))
            for one in self.open_paths
        )


class Guard:
    """ASGI middleware around everything: refusals, headers, one log line for each failure."""

    def __init__(
        self,
        app: ASGIApp,
        rules: AccessRules,
        on_response: Callable[[Scope, int], None] = lambda scope, status: None,
    ) -> None:
        self._app, self._rules, self._on_response = app, rules, on_response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
                self._on_response(scope, message["status"])
            await send(message)

        refusal = self._refusal(scope)
        try:
            await (refusal or self._app)(scope, receive, send_with_headers)
        except CutOffError as error:
            _LOGGER.warning("%s: answer cut off: %s", scope["path"], error)
        except Exception:
            # FastAPI has already responded with status 500 and raises the error again.
            _LOGGER.exception("%s: failed", scope["path"])

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers, rules = Headers(scope=scope), self._rules
        host, origin = headers.get("host", ""), headers.get("origin")
        if not rules.allows_host(host):
            return error_response(421, f"Host: found {host!r}; allow a name with --allow-host NAME")
        if origin is not None and not rules.allows_origin(origin, host):
            return error_response(
                403, f"Origin: found {origin!r}; allow a site with --allow-origin ORIGIN"
            )
        is_open = rules.is_open(scope["path"])
        # Images and links on other pages send no Origin header, but browsers set this one.
        is_foreign = headers.get("sec-fetch-site", "none") in ("cross-site", "same-site")
        if origin is None and is_foreign and not is_open:
            return error_response(403, "the request comes from a page of another site")
        # Browsers send a preflight request without the token first.
        is_preflight = scope["method"] == "OPTIONS" and origin in rules.origins
        if not (is_open or is_preflight or rules.allows_token(headers.get("authorization", ""))):
            message = "expected the header Authorization: Bearer TOKEN"
            return error_response(401, message, {"WWW-Authenticate": "Bearer"})
        # The rest of a rejected body would be read as the next request.
        close = {"Connection": "close"}
        if "transfer-encoding" in headers:
            return error_response(411, "expected the header Content-Length", close)
        length, limit = int(headers.get("content-length", 0)), rules.body_bytes(scope)
        if length > limit:
            message = f"a body of {length:,} bytes, expected at most {limit:,}"
            return error_response(413, message, close)
        return None


def error_response(
    status: int, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return an error in the form of OpenAI's API."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": printable(message), "type": kind, "param": None, "code": None}
    return JSONResponse({"error": error}, status, dict(headers or {}))


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a name or address."""
    try:
        found = socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    addresses = (str(info[4][0]).partition("%")[0] for info in found)
    return all(ipaddress.ip_address(address).is_loopback for address in addresses)


def is_origin(text: str) -> bool:
    """Return whether a text is a scheme and a host, without a path."""
    parts = urlsplit(text)
    return parts.scheme in ("http", "https") and text == f"{parts.scheme}://{parts.netloc}"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
