"""The files of the page, read from the package once; other names do not exist."""

from __future__ import annotations

import functools
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response

from myxtts.serving.answers import RefusedError

PAGES = {"/": "index.html", "/docs": "api.html"}
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


async def page_file(request: Request) -> Response:
    name = PAGES.get(request.url.path) or request.path_params.get("name", "")
    content = _files().get(name)
    if content is None:
        raise RefusedError(404, "no such file")
    ending = name[name.rindex(".") :]
    headers = {"Content-Type": _TYPES[ending], "Cache-Control": "no-cache"}
    return Response(content, headers=headers)


@functools.cache
def _files() -> dict[str, bytes]:
    folder = resources.files("myxtts.serving") / "page"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
