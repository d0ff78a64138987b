"""The HTTP interface: OpenAI's `audio/speech`, Coqui's `api/tts`, voices, the page, figures."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import FastAPI, File, Form, Query, Request, UploadFile
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from myxtts.serving.access import AccessRules, GuardedApp
from myxtts.serving.admission import Admission
from myxtts.serving.answers import RefusedError, error_answer
from myxtts.serving.body_limit import VOICES_PATH, LimitedBodies
from myxtts.serving.counted_app import CountedApp
from myxtts.serving.limits import Limits
from myxtts.serving.metrics import CONTENT_TYPE, Metrics
from myxtts.serving.page_files import PAGES, page_file
from myxtts.serving.requests import SpeechRequest
from myxtts.serving.served_run import ServedRun
from myxtts.serving.spoken_answer import SpokenAnswer
from myxtts.version import VERSION

_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": what, "content": {"application/json": {}}}
    for status, what in {
        400: "What is wrong with the request",
        401: "No token, or a wrong one",
        403: "From a page of another site",
        409: "The voice does not fit the model",
        411: "No Content-Length",
        413: "Too large",
        421: "Called by a name that is not allowed",
        429: "Too many requests are waiting; see Retry-After",
        503: "It took too long",
    }.items()
}
_AUDIO: dict[int | str, dict[str, Any]] = {
    200: {"description": "Speech", "content": {"audio/*": {}}},
    **_ERRORS,
}


@dataclass(frozen=True)
class Service:
    """All that the routes share."""

    runs: Mapping[str, ServedRun]
    """By name; the first is the default."""
    rules: AccessRules = field(default_factory=AccessRules)
    limits: Limits = field(default_factory=Limits)

    def run(self, name: str | None) -> ServedRun:
        """Clients of OpenAI's API send names of its models."""
        return self.runs.get(name or "") or next(iter(self.runs.values()))


def make_app(service: Service) -> ASGIApp:
    limits = service.limits
    admission = Admission(limits.waiting)
    metrics = Metrics(lambda: admission.in_progress)
    pool = ThreadPoolExecutor(limits.waiting + 4, thread_name_prefix="speech")
    app = FastAPI(
        title="MyXTTS",
        version=VERSION,
        description="Text to speech in cloned voices.",
        docs_url=None,  # FastAPI's page of the interface loads from elsewhere
        redoc_url=None,
    )
    _add_error_handlers(app)

    def spoken(asked: SpeechRequest) -> SpokenAnswer:
        if len(asked.input) > limits.text_characters:
            raise RefusedError(
                400,
                f"input: {len(asked.input):,} characters, expected at most "
                f"{limits.text_characters:,}",
            )
        return SpokenAnswer(
            service.run(asked.model),
            asked,
            admission=admission,
            pool=pool,
            limits=limits,
            metrics=metrics,
        )

    @app.post("/v1/audio/speech", response_class=Response, responses=_AUDIO)
    async def create_speech(asked: SpeechRequest) -> Response:
        """Speaks a text, as OpenAI's API does."""
        return spoken(asked)

    @app.get("/api/tts", response_class=Response, responses=_AUDIO)
    async def coqui_tts(
        text: Annotated[str, Query(min_length=1)],
        speaker_id: Annotated[str, Query()] = "",
        language_id: Annotated[str, Query()] = "",
        style_wav: Annotated[str, Query()] = "",
    ) -> Response:
        """Speaks a text as wav, as the server of Coqui TTS does."""
        if style_wav:
            raise RefusedError(400, "style_wav: files of the server are not read; add a voice")
        return spoken(
            SpeechRequest(
                input=text,
                voice=speaker_id or None,
                language=language_id or None,
                response_format="wav",
                stream=False,
            )
        )

    @app.get("/v1/models", responses=_ERRORS)
    async def list_models() -> dict[str, Any]:
        """The runs that are served."""
        return {"object": "list", "data": [run.facts() for run in service.runs.values()]}

    @app.get(VOICES_PATH, responses=_ERRORS)
    async def list_voices(model: Annotated[str, Query()] = "") -> dict[str, Any]:
        """The saved voices of a run."""
        voices = await run_in_threadpool(service.run(model).voices)
        return {"object": "list", "data": voices}

    @app.post(VOICES_PATH, status_code=201, responses=_ERRORS)
    async def add_voice(
        name: Annotated[str, Form()],
        file: Annotated[list[UploadFile], File()],
        model: Annotated[str, Form()] = "",
        replace: Annotated[bool, Form()] = False,
    ) -> dict[str, Any]:
        """Saves a voice: recordings of one speaker (wav, flac, ogg or mp3)."""
        with admission.slot():
            recordings = [await one.read() for one in file]
            return await run_in_threadpool(
                service.run(model).add_voice, name, recordings, replace=replace
            )

    @app.delete(f"{VOICES_PATH}/{{name}}", responses=_ERRORS | {404: {"description": "No voice"}})
    async def remove_voice(name: str, model: Annotated[str, Query()] = "") -> dict[str, Any]:
        """Deletes a voice."""
        await run_in_threadpool(service.run(model).remove_voice, name)
        return {"id": name, "object": "voice.deleted", "deleted": True}

    @app.get("/healthz")
    async def health() -> dict[str, Any]:
        """Whether the server answers."""
        return {"status": "ok", "version": VERSION}

    @app.get("/metrics", response_class=Response)
    async def figures() -> Response:
        """Counters for Prometheus."""
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    for path in PAGES:
        app.add_api_route(path, page_file, include_in_schema=False)
    app.add_api_route("/page/{name}", page_file, include_in_schema=False)

    origins = list(service.rules.origins)
    inner: ASGIApp = LimitedBodies(app, limits)
    if origins:
        inner = CORSMiddleware(
            inner,
            allow_origins=origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type"],
        )
    return CountedApp(GuardedApp(inner, service.rules), metrics)


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> JSONResponse:
        return error_answer(error.status, error.message, error.headers)

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> JSONResponse:
        return error_answer(error.status_code, str(error.detail), error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        return error_answer(400, f"{place}: {first['msg']}" if place else str(first["msg"]))
