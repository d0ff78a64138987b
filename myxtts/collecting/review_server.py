"""Serves the page on which clips are reviewed, to this machine alone.

The address contains a random token; whoever does not know it gets nothing. Requests that a page of
another site could send are refused: they name another host, or are no JSON.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import unquote

from myxtts.collecting.reviewing import Review
from myxtts.errors import MyXTTSError
from myxtts.json_files import parse_json

HOST = "127.0.0.1"
_SMALL_JSON = ("application/json", 1 << 20)
# A minute at 96 kHz.
_MOST_WAV_BYTES = 16 << 20


_DECISION = {"id": str, "status": str, "text": str}
_SPLIT = {"id": str, "at": float, "texts": [str]}
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'"
)


class ReviewServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, review: Review, port: int = 0, language: str | None = None) -> None:
        super().__init__((HOST, port), _Handler)
        self.review, self._language = review, language
        self.token = secrets.token_urlsafe(16)

    def page(self) -> str:
        """In the language that was asked for, or else in the one that its reader chose last."""
        content = resources.files(__package__).joinpath("review_page.html").read_text("utf-8")
        if self._language is None:
            return content
        return content.replace("<html ", f'<html data-language="{self._language}" ', 1)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self._path()
        if path is None:
            return
        if path == "":
            self._send(self.server.page().encode(), "text/html; charset=utf-8")
        elif path == "clips":
            self._answer(lambda: {"clips": self.server.review.clips()})
        elif path == "prompts":
            self._answer(lambda: {"prompts": self.server.review.prompts()})
        elif path.startswith("wavs/"):
            self._send_sound(unquote(path.removeprefix("wavs/")))
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "no such page")

    def do_POST(self) -> None:
        path = self._path()
        if path is None:
            return
        is_take = path.startswith(("take/", "take-even-so/"))
        kind, most_bytes = ("audio/wav", _MOST_WAV_BYTES) if is_take else _SMALL_JSON
        # Another site cannot send these kinds without asking first, which is never allowed.
        if self.headers.get_content_type() != kind:
            return self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"expected {kind}")
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > most_bytes:
            return self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected {most_bytes} bytes")
        body = self.rfile.read(int(size))
        if is_take:
            name, _, prompt_id = path.partition("/")
            even_so = name == "take-even-so"
            review = self.server.review
            self._answer(lambda: review.record(unquote(prompt_id), body, even_so=even_so))
        elif path == "decide":
            self._answer(lambda: self._decide(body))
        elif path == "split":
            self._answer(lambda: self._split(body))
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "no such page")

    def _decide(self, body: bytes) -> dict[str, Any]:
        wanted = parse_json(body, _DECISION)
        self.server.review.decide(wanted["id"], wanted["status"], wanted["text"])
        return {}

    def _split(self, body: bytes) -> dict[str, Any]:
        wanted = parse_json(body, _SPLIT)
        if len(wanted["texts"]) != 2:
            raise ValueError("texts: expected two")
        texts = (wanted["texts"][0], wanted["texts"][1])
        return {"ids": self.server.review.split(wanted["id"], wanted["at"], texts)}

    def _path(self) -> str | None:
        """What comes after the token; None if the request was refused."""
        hosts = (f"{HOST}:{self.server.server_port}", f"localhost:{self.server.server_port}")
        token, _, path = self.path.removeprefix("/").partition("/")
        # Another site may lead its own name to this machine.
        if self.headers.get("Host") not in hosts or not secrets.compare_digest(
            token.encode(), self.server.token.encode()
        ):
            self._refuse(HTTPStatus.FORBIDDEN, "use the address that `myxtts review` printed")
            return None
        return path

    def _answer(self, work: Callable[[], dict[str, Any]]) -> None:
        try:
            content = json.dumps(work(), ensure_ascii=False).encode()
        except (MyXTTSError, ValueError, TypeError) as error:
            return self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        self._send(content, "application/json")

    def _send_sound(self, clip_id: str) -> None:
        try:
            content = self.server.review.sound(clip_id).read_bytes()
        except (MyXTTSError, OSError):
            return self._refuse(HTTPStatus.NOT_FOUND, "no such clip")
        self._send(content, "audio/wav")

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self.close_connection = True
        self._send(json.dumps({"error": message}).encode(), "application/json", status)

    def _send(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *values: Any) -> None:
        """The address with its token belongs in no log."""
