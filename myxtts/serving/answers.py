"""Errors in the form that OpenAI's clients read."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse

from myxtts.wording import printable


class RefusedError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


def error_answer(
    status: int, message: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": printable(message), "type": kind, "param": None, "code": None}
    return JSONResponse({"error": error}, status, dict(headers or {}))
