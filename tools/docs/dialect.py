"""Converts pages, which are written for GitHub, to the Markdown dialect of the site.

- Persian pages use `<div dir=...>`, because GitHub has no other way to set the direction. The site
  sets it for the whole page, so the outer div is removed; a div of another direction is marked as
  containing Markdown.
- A bar in code in a table is escaped for GitHub; the site would show the backslash.
"""

from __future__ import annotations

import re
from typing import Any

_PAGE_DIRECTION = '<div dir="rtl">'
_PAGE_END = "</div>"


def on_page_markdown(markdown: str, **_: Any) -> str:
    page = markdown.strip()
    if page.startswith(_PAGE_DIRECTION) and page.endswith(_PAGE_END):
        page = page.removeprefix(_PAGE_DIRECTION).removesuffix(_PAGE_END)
    page = page.replace('<div dir="ltr">', '<div dir="ltr" markdown="1">')
    return re.sub(r"^\|.*", lambda row: _with_bars(row[0]), page, flags=re.MULTILINE)


def _with_bars(row: str) -> str:
    return re.sub(r"`[^`]*`", lambda code: code[0].replace(r"\|", "|"), row)
