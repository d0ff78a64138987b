"""Routes: OpenAI's `audio/speech`, Coqui's `api/tts`, voices, the page, metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, File, Form, Query, Request, UploadFile
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from myxtts.serving.engine import Engine, Limits, SpeechRequest
from myxtts.serving.speech import Desk, SpeechResponse
from myxtts.version import VERSION
from myxtts.web import AccessRules, Guard, add_error_handlers

_VOICES = "/v1/voices"
# Public paths, which are cheap and reveal nothing about a run.
_OPEN_PATHS = ("/", "/healthz", "/docs", "/openapi.json", "/page/")
# Boundaries and fields of a form around its recordings.
_FORM_BYTES = 1 << 16
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": what, "content": {"application/json": {}}}
    for status, what in {
        400: "Invalid request",
        401: "Missing or invalid token",
        403: "Request from another site's page",
        409: "The voice does not fit the model",
        413: "Too large",
        421: "Host name not allowed",
        429: "Too many requests are waiting; see Retry-After",
        503: "Time limit exceeded",
    }.items()
}
_AUDIO = {200: {"description": "Speech", "content": {"audio/*": {}}}, **_ERRORS}


def make_app(engines: Mapping[str, Engine], rules: AccessRules, limits: Limits) -> ASGIApp:
    """Return the application. The first engine is the default."""
    desk = Desk(limits)
    # FastAPI's own documentation page loads files from other sites.
    app = FastAPI(
        title="MyXTTS",
        version=VERSION,
        description="Text to speech in cloned voices.",
        docs_url=None,
        redoc_url=None,
    )
    add_error_handlers(app)

    def engine(name: str | None) -> Engine:
        """Return the engine of a name; any other name, such as OpenAI's, means the first."""
        return engines.get(name or "") or next(iter(engines.values()))

    @app.post("/v1/audio/speech", response_class=Response, responses=_AUDIO)
    async def create_speech(asked: SpeechRequest) -> Response:
        """Speak a text, as OpenAI's API does."""
        return SpeechResponse(engine(asked.model), asked, desk)

    @app.get("/api/tts", response_class=Response, responses=_AUDIO)
    async def coqui_tts(
        text: Annotated[str, Query(min_length=1)],
        speaker_id: Annotated[str, Query()] = "",
        language_id: Annotated[str, Query()] = "",
        style_wav: Annotated[str, Query()] = "",
    ) -> Response:
        """Speak a text as wav, as the server of Coqui TTS does."""
        if style_wav:
            raise HTTPException(400, "style_wav: files of the server are not read; add a voice")
        asked = SpeechRequest(
            input=text,
            voice=speaker_id or None,
            language=language_id or None,
            response_format="wav",
            stream=False,
        )
        return SpeechResponse(engine(None), asked, desk)

    @app.get("/v1/models", responses=_ERRORS)
    async def list_models() -> dict[str, Any]:
        """List the runs that are served."""
        return {"object": "list", "data": [one.facts() for one in engines.values()]}

    @app.get(_VOICES, responses=_ERRORS)
    async def list_voices(model: Annotated[str, Query()] = "") -> dict[str, Any]:
        """List the saved voices of a run."""
        return {"object": "list", "data": await run_in_threadpool(engine(model).voices.list)}

    @app.get("/v1/audio/voices", responses=_ERRORS)
    async def list_speech_voices(model: Annotated[str, Query()] = "") -> dict[str, Any]:
        """List the voices in the form that Open WebUI and others expect."""
        return {"voices": await run_in_threadpool(engine(model).voices.list)}

    @app.post(_VOICES, status_code=201, responses=_ERRORS)
    async def add_voice(
        name: Annotated[str, Form()],
        file: Annotated[list[UploadFile], File()],
        model: Annotated[str, Form()] = "",
        replace: Annotated[bool, Form()] = False,
    ) -> dict[str, Any]:
        """Save a voice from recordings of one speaker (wav, flac, ogg or mp3)."""
        chosen = engine(model)
        with desk.slot(), chosen.http_errors():
            recordings = [await one.read() for one in file]
            return await run_in_threadpool(chosen.voices.add, name, recordings, replace=replace)

    @app.delete(f"{_VOICES}/{{name}}", responses=_ERRORS | {404: {"description": "No voice"}})
    async def remove_voice(name: str, model: Annotated[str, Query()] = "") -> dict[str, Any]:
        """Delete a voice."""
        chosen = engine(model)
        with chosen.http_errors():
            await run_in_threadpool(chosen.voices.remove, name)
        return {"id": name, "object": "voice.deleted", "deleted": True}

    @app.get("/healthz")
    async def health() -> dict[str, Any]:
        """Report that the server is up."""
        return {"status": "ok", "version": VERSION}

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Return counters for Prometheus."""
        content = generate_latest(desk.metrics.registry)
        return Response(content, headers={"Content-Type": CONTENT_TYPE_LATEST})

    page = Path(str(resources.files("myxtts.serving"))) / "page"

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def show_page(request: Request) -> FileResponse:
        name = "index.html" if request.url.path == "/" else "api.html"
        return FileResponse(page / name, headers={"Cache-Control": "no-cache"})

    files = StaticFiles(packages=[("myxtts.serving", "page"), ("myxtts.web", "page")])
    app.mount("/page", files)

    def body_bytes(scope: Scope) -> int:
        is_upload = scope["path"] == _VOICES and scope["method"] == "POST"
        return limits.upload_bytes + _FORM_BYTES if is_upload else limits.body_bytes

    def count(scope: Scope, status: int) -> None:
        # Existing routes, and one word for all others, so that clients cannot create counters.
        route = getattr(scope.get("route"), "path", "other")
        desk.metrics.requests.labels(route, str(status)).inc()

    if rules.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=rules.origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )
    return Guard(app, replace(rules, open_paths=_OPEN_PATHS, body_bytes=body_bytes), count)
