"""The review page over HTTP, to this machine only, under an address with a random token."""

from __future__ import annotations

import secrets
from importlib import resources
from typing import Any, Literal

from fastapi import FastAPI, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from myxtts.collect.review import Review
from myxtts.errors import MyXTTSError
from myxtts.web.security import AccessRules, Guard, error_response
from myxtts.web.server import Shield, add_error_handlers

HOST = "127.0.0.1"
# A minute at 96 kHz.
_MAX_TAKE_BYTES = 16 << 20


class Decision(BaseModel):
    id: str
    status: Literal["kept", "review", "dropped"]
    text: str


class Split(BaseModel):
    id: str
    at: float
    texts: tuple[str, str]


def make_app(review: Review, language: str | None = None) -> tuple[ASGIApp, str]:
    """Return the application and the path of its page.

    `language` is that of the page. Without it the page has the one that was chosen last.
    """
    token = secrets.token_urlsafe(16)
    app = FastAPI(openapi_url=None)
    add_error_handlers(app)
    html = (resources.files(__package__) / "page" / "review.html").read_text("utf-8")
    if language is not None:
        html = html.replace("<html ", f'<html data-language="{language}" ', 1)

    @app.exception_handler(MyXTTSError)
    async def refused(_: Request, error: MyXTTSError) -> JSONResponse:
        return error_response(400, str(error))

    @app.get("/")
    def page() -> HTMLResponse:
        return HTMLResponse(html)

    @app.get("/clips")
    def clips() -> dict[str, Any]:
        return {"clips": review.clips()}

    @app.get("/prompts")
    def prompts() -> dict[str, Any]:
        return {"prompts": review.prompts()}

    @app.get("/wavs/{clip_id:path}")
    def wav(clip_id: str) -> FileResponse:
        try:
            file = review.sound(clip_id)
        except MyXTTSError:
            raise HTTPException(404, "no such clip") from None
        # A corpus from elsewhere may have a link or a device in its place.
        if file.is_symlink() or not file.is_file():
            raise HTTPException(404, "no such clip")
        return FileResponse(file, media_type="audio/wav", headers={"Cache-Control": "no-store"})

    @app.post("/decide")
    def decide(decision: Decision) -> dict[str, Any]:
        review.decide(decision.id, decision.status, decision.text)
        return {}

    @app.post("/split")
    def split(wanted: Split) -> dict[str, Any]:
        return {"ids": review.split(wanted.id, wanted.at, wanted.texts)}

    @app.post("/take/{prompt_id}")
    async def take(prompt_id: str, request: Request, even_so: bool = False) -> dict[str, Any]:
        content = await request.body()
        return await run_in_threadpool(review.record, prompt_id, content, even_so=even_so)

    packages: Any = [(__package__, "page"), ("myxtts.web", "page")]
    app.mount("/page", StaticFiles(packages=packages))

    def body_bytes(scope: Scope) -> int:
        return _MAX_TAKE_BYTES if scope["path"].startswith(f"/{token}/take/") else 1 << 20

    outer = FastAPI(openapi_url=None)
    add_error_handlers(outer)
    outer.mount(f"/{token}", app)
    outer.add_middleware(Guard, rules=AccessRules(body_bytes=body_bytes))
    return Shield(outer), f"/{token}/"
