"""Persian pages on the site: Markdown inside their `<div dir=...>` is rendered.

The pages carry the divs because GitHub, which renders Markdown inside them, has no other way to set
a direction. On the site the whole page has one already, so the outer div goes; a div of another
direction stays and says that it holds Markdown.
"""

from __future__ import annotations

from typing import Any

_PAGE_DIRECTION = '<div dir="rtl">'
_PAGE_END = "</div>"


def on_page_markdown(markdown: str, **_: Any) -> str:
    page = markdown.strip()
    if page.startswith(_PAGE_DIRECTION) and page.endswith(_PAGE_END):
        page = page.removeprefix(_PAGE_DIRECTION).removesuffix(_PAGE_END)
    return page.replace('<div dir="ltr">', '<div dir="ltr" markdown="1">')
