"""The page: served in parts while a run goes on, or exported as one HTML file.

Names and sentences of a run reach the page only as JSON, and its scripts show them as text. A
Content-Security-Policy lets nothing run, load or connect but the page's own parts.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

from myxtts.dashboard.run_reader import RunReader
from myxtts.dashboard.samples import read_media
from myxtts.runs.run_dir import RunDir

STYLE, SCRIPTS = "style.css", ("words.js", "charts.js", "dashboard.js")
_PAGE = "page.html"
_PARTS, _DATA = "<!-- parts -->", "<!-- data -->"
# A file with all samples of a long run would be too large to send.
_MOST_EXPORTED_SAMPLES = 12

SERVED_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


@functools.cache
def asset(name: str) -> str:
    return (resources.files("myxtts.dashboard") / "assets" / name).read_text(encoding="utf-8")


def served_page(language: str | None = None) -> str:
    scripts = "".join(f'<script src="{name}" defer></script>\n' for name in SCRIPTS)
    parts = f'<link rel="stylesheet" href="{STYLE}">\n{scripts}'
    return _page(language).replace(_PARTS, parts).replace(_DATA, "")


def runs_as_json(readers: Sequence[RunReader]) -> str:
    return _as_json([reader.read() for reader in readers])


def exported_page(readers: Sequence[RunReader], language: str | None = None) -> str:
    """One file with everything in it, which asks for nothing from elsewhere."""
    style, script = asset(STYLE), "\n".join(map(asset, SCRIPTS))
    policy = (
        f"default-src 'none'; script-src '{_hash_of(script)}'; style-src '{_hash_of(style)}'; "
        "img-src data:; media-src data:; base-uri 'none'; form-action 'none'"
    )
    runs = [reader.read() | {"samples": _inlined_samples(reader)} for reader in readers]
    data = f'<script type="application/json" id="data">{_as_json(runs)}</script>'
    parts = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
    )
    page = _page(language).replace(_PARTS, parts)
    return page.replace(_DATA, f"{data}\n<script>{script}</script>")


def _page(language: str | None) -> str:
    """Asked for by --language; else the page itself finds the language of its reader."""
    page = asset(_PAGE)
    return (
        page if language is None else page.replace("<html ", f'<html data-language="{language}" ')
    )


def _inlined_samples(reader: RunReader) -> dict[str, Any]:
    samples = reader.read()["samples"]
    shown = _evenly(samples["steps"], _MOST_EXPORTED_SAMPLES)
    return {
        "steps": [
            {
                name: value if name == "step" else _inlined(reader.run, value)
                for name, value in sample.items()
            }
            for sample in shown
        ],
        "recording": samples["recording"] and _inlined(reader.run, samples["recording"]),
        "left_out": len(samples["steps"]) - len(shown),
    }


def _evenly(items: Sequence[Any], most: int) -> list[Any]:
    """The first, the last and some between."""
    if len(items) <= most:
        return list(items)
    return [items[place * (len(items) - 1) // (most - 1)] for place in range(most)]


def _inlined(run: RunDir, name: str) -> str | None:
    media = read_media(run, name)
    if media is None:
        return None
    return f"data:{media.kind};base64,{base64.b64encode(media.content).decode()}"


def _as_json(runs: Sequence[dict[str, Any]]) -> str:
    """Without a character that could end the script that it stands in."""
    text = json.dumps(list(runs), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash_of(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
