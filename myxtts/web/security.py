"""Access control: allowed hosts, origins, token and body size.

A web page can make a browser send requests to this machine, also under a name that its owner has
pointed here (DNS rebinding). Such requests carry that name as Host, or the page's Origin.

Starlette's TrustedHostMiddleware has no rule for "any IP address", and its limit for bodies answers
in plain text. Clients of OpenAI's API expect JSON.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from myxtts.wording import printable

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
    """ASGI middleware that answers forbidden requests itself."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self.app, self._rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self.app(scope, receive, send)
        else:
            await error_response(*refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str, dict[str, str]] | None:
        headers, rules = Headers(scope=scope), self._rules
        host, origin = headers.get("host", ""), headers.get("origin")
        if not rules.allows_host(host):
            return 421, f"Host: found {host!r}; allow a name with --allow-host NAME", {}
        if origin is not None and not rules.allows_origin(origin, host):
            return 403, f"Origin: found {origin!r}; allow a site with --allow-origin ORIGIN", {}
        is_open = rules.is_open(scope["path"])
        # Images and links of other pages come without Origin, but browsers mark them here.
        is_foreign = headers.get("sec-fetch-site", "none") in ("cross-site", "same-site")
        if origin is None and is_foreign and not is_open:
            return 403, "the request comes from a page of another site", {}
        # Browsers send a request without the token before one that has it.
        is_preflight = scope["method"] == "OPTIONS" and origin in rules.origins
        if not (is_open or is_preflight or rules.allows_token(headers.get("authorization", ""))):
            message = "expected the header Authorization: Bearer TOKEN"
            return 401, message, {"WWW-Authenticate": "Bearer"}
        # The rest of a refused body would be taken for the next request.
        close = {"Connection": "close"}
        if "transfer-encoding" in headers:
            return 411, "expected the header Content-Length", close
        length, limit = int(headers.get("content-length", 0)), rules.body_bytes(scope)
        if length > limit:
            return 413, f"a body of {length:,} bytes, expected at most {limit:,}", close
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
