"""Refuses bodies that are too large before anything of them is read. An ASGI layer."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from myxtts.serving.answers import error_answer
from myxtts.serving.limits import Limits

VOICES_PATH = "/v1/voices"
# Boundaries and fields of a form around its recordings.
_FORM_BYTES = 1 << 16


class LimitedBodies:
    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        # What the client is still sending would be taken for its next request.
        await error_answer(*refusal, {"Connection": "close"})(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers:
            return 411, "expected the header Content-Length"
        length = headers.get("content-length", "0")
        if not re.fullmatch("[0-9]{1,15}", length):
            return 400, f"Content-Length: found {length!r}, expected a number"
        limits = self._limits
        is_upload = scope["path"] == VOICES_PATH and scope["method"] == "POST"
        most = limits.upload_bytes + _FORM_BYTES if is_upload else limits.body_bytes
        if int(length) > most:
            return 413, f"a body of {int(length):,} bytes, expected at most {most:,}"
        return None
