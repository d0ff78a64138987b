"""Serves the page on this machine, to this machine.

Only a handful of addresses answer, none of which names a path. The Host of a request must be this
machine: a page from elsewhere whose name suddenly leads here (DNS rebinding) gets nothing.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from myxtts.dashboard import page
from myxtts.dashboard.run_reader import RunReader
from myxtts.dashboard.samples import Media, read_media
from myxtts.errors import ConfigError

_log = logging.getLogger(__name__)

HOST = "127.0.0.1"
_OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")
_MEDIA = re.compile(r"/media/(\d{1,3})/([a-z0-9_.]{1,40})", re.ASCII)
_RANGE = re.compile(r"bytes=(\d{0,12})-(\d{0,12})", re.ASCII)
_SECONDS_FOR_A_REQUEST = 20
_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_HEADERS = {
    "Content-Security-Policy": page.SERVED_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class DashboardServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self, readers: Sequence[RunReader], port: int, language: str | None = None
    ) -> None:
        self.readers, self.language = list(readers), language
        self._reading = threading.Lock()
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"port {port} cannot be opened ({reason}); choose another with --port"
            ) from None

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/"

    def runs(self) -> bytes:
        with self._reading:
            return page.runs_as_json(self.readers).encode()


class _Handler(BaseHTTPRequestHandler):
    server: DashboardServer
    protocol_version = "HTTP/1.1"
    server_version = "myxtts"
    sys_version = ""
    timeout = _SECONDS_FOR_A_REQUEST

    def do_GET(self) -> None:
        if not self._is_for_this_machine():
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "not an address of this machine")
            return
        found = self._find(self.path.partition("?")[0])
        if found is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self._send(found)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _is_for_this_machine(self) -> bool:
        """By name alone: a tunnel may have another port."""
        host = self.headers.get("Host", "")
        return re.sub(r":\d{1,5}$", "", host).lower() in _OWN_NAMES

    def _find(self, path: str) -> Media | None:
        if path == "/":
            content = page.served_page(self.server.language)
            return Media("text/html; charset=utf-8", content.encode())
        if path == "/runs.json":
            return Media("application/json", self.server.runs())
        if path.removeprefix("/") in (page.STYLE, *page.SCRIPTS):
            kind = _KINDS[path.rpartition(".")[2]]
            return Media(kind, page.asset(path.removeprefix("/")).encode())
        match = _MEDIA.fullmatch(path)
        if match and int(match[1]) < len(self.server.readers):
            return read_media(self.server.readers[int(match[1])].run, match[2])
        return None

    def _send(self, media: Media) -> None:
        tag = f'"{hashlib.sha256(media.content).hexdigest()[:32]}"'
        if self.headers.get("If-None-Match") == tag:
            self._begin(HTTPStatus.NOT_MODIFIED, {"ETag": tag})
            return
        content, headers, status = media.content, {"ETag": tag}, HTTPStatus.OK
        part = _part_asked_for(self.headers.get("Range", ""), len(content))
        if part is not None:
            headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{len(content)}"
            content, status = content[part.start : part.stop], HTTPStatus.PARTIAL_CONTENT
        headers |= {
            "Content-Type": media.kind,
            "Content-Length": str(len(content)),
            "Accept-Ranges": "bytes",
        }
        self._begin(status, headers)
        if self.command != "HEAD":
            self.wfile.write(content)

    def _begin(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def end_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *values: Any) -> None:
        _log.debug(format, *values)


def _part_asked_for(header: str, size: int) -> range | None:
    """What a player asks for when somebody jumps; None: all of it."""
    match = _RANGE.fullmatch(header)
    if not match or not (match[1] or match[2]):
        return None
    if match[1]:
        first, last = int(match[1]), int(match[2] or size - 1)
    else:
        first, last = size - int(match[2]), size - 1
    part = range(max(0, first), min(size, last + 1))
    return part if part else None
