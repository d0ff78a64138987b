"""Who may use the server: token, Host and Origin. An ASGI layer around the application.

A page on the web can make a browser send requests to this machine, also under a name that its owner
has pointed here (DNS rebinding). Such requests carry that name as Host, or another page's Origin.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from myxtts.serving.answers import error_answer

# They show nothing of a run and cost nothing.
_OPEN_PATHS = ("/", "/healthz", "/docs", "/openapi.json")
_OPEN_FOLDER = "/page/"


@dataclass(frozen=True, kw_only=True)
class AccessRules:
    token: str | None = None
    hosts: tuple[str, ...] = ()
    """Names by which the server may be called, besides localhost and any IP address."""
    origins: tuple[str, ...] = ()
    """Other sites whose pages may use the server, such as https://example.org."""

    def allows_host(self, host: str) -> bool:
        name = _host_name(host)
        return name is not None and (
            name == "localhost" or _is_address(name) or name in map(str.lower, self.hosts)
        )

    def allows_origin(self, origin: str, host: str) -> bool:
        own = {f"{scheme}://{host.lower()}" for scheme in ("http", "https")}
        return origin.lower() in own or origin in self.origins

    def allows_token(self, authorization: str) -> bool:
        if self.token is None:
            return True
        scheme, _, found = authorization.partition(" ")
        same = hmac.compare_digest(found.strip().encode(), self.token.encode())
        return scheme.lower() == "bearer" and same


class GuardedApp:
    """Answers what is not allowed by itself; the application sees the rest."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app, self._rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            status, message = refusal
            headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
            await error_answer(status, message, headers)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers, path, rules = Headers(scope=scope), scope["path"], self._rules
        host = headers.get("host", "")
        if not rules.allows_host(host):
            return 421, f"Host: found {host!r}; allow a name with --allow-host NAME"
        origin = headers.get("origin")
        if origin is not None and not rules.allows_origin(origin, host):
            return 403, f"Origin: found {origin!r}; allow a site with --allow-origin ORIGIN"
        is_open = path in _OPEN_PATHS or path.startswith(_OPEN_FOLDER)
        # Pictures and links of other pages come without Origin; browsers tell so here.
        is_foreign = headers.get("sec-fetch-site", "none") in ("cross-site", "same-site")
        if origin is None and is_foreign and not is_open:
            return 403, "the request comes from a page of another site"
        # Before a browser sends a request with a token it asks without one.
        is_preflight = scope["method"] == "OPTIONS" and origin in rules.origins
        if is_open or is_preflight or rules.allows_token(headers.get("authorization", "")):
            return None
        return 401, "expected the header Authorization: Bearer TOKEN"


def is_loopback(host: str) -> bool:
    """Whether a name or address to listen on is reached from this machine alone."""
    try:
        found = socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(_address(info[4])).is_loopback for info in found)


def checked_origins(origins: Iterable[str]) -> str | None:
    """The first that is none: a scheme and a host, without a path."""
    for origin in origins:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}":
            return origin
    return None


def _address(socket_address: tuple[object, ...]) -> str:
    return str(socket_address[0]).partition("%")[0]


def _host_name(host: str) -> str | None:
    """Without the port; None for what no browser sends."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname if parts.netloc == host and "@" not in host else None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
