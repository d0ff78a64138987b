"""Inserts the sounds of docs/audio/sounds.yaml where a page has an empty place for them."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import yaml

MARK = '<div class="sounds"></div>'
_FOLDER = Path(__file__).parents[2] / "docs" / "audio"
_TITLES = {"en": "Listen", "fa": "بشنوید"}
_KINDS = {
    "en": {"voice": "Included voice", "recording": "Recording", "clone": "Clone"},
    "fa": {"voice": "صدای همراه بسته", "recording": "ضبط‌شده", "clone": "شبیه‌سازی‌شده"},
}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    if MARK not in markdown:
        return markdown
    language = "fa" if page.file.src_uri.startswith("fa/") else "en"
    return markdown.replace(MARK, section(language, _FOLDER))


def section(language: str, folder: Path) -> str:
    """Return recordings and clones with their texts, if there are any in this language."""
    listed = folder / "sounds.yaml"
    sounds = yaml.safe_load(listed.read_text(encoding="utf-8")) if listed.is_file() else []
    figures = [_figure(sound) for sound in sounds if sound["language"] == language]
    if not figures:
        return ""
    return "\n".join(
        [f"## {_TITLES[language]}", "", '<div class="sounds">', *figures, "</div>", ""]
    )


def _figure(sound: dict[str, str]) -> str:
    kind = _KINDS[sound["language"]][sound["kind"]]
    # Relative to a page of the built site; Persian pages are one folder down.
    place = ("../" if sound["language"] == "fa" else "") + f"audio/{sound['file']}"
    return (
        f"<figure><figcaption>{kind}: {html.escape(sound['text'])}</figcaption>"
        f'<audio controls preload="none" src="{html.escape(place)}"></audio></figure>'
    )
