"""Parses pages for the documentation checks: code, links and headings.

Parses like GitHub (CommonMark and tables), with line numbers.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
ENGLISH_PAGES = sorted((ROOT / "docs" / "en").glob("*.md"))
PERSIAN_PAGES = sorted((ROOT / "docs" / "fa").glob("*.md"))
# Pages outside docs/.
OTHER_PAGES = [
    *(ROOT / name for name in ("README.md", "README.fa.md", "README.package.md")),
    *(ROOT / name for name in ("CONTRIBUTING.md", "NOTICE.md")),
    ROOT / "benchmarks" / "README.md",
]

_COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)


@dataclass(frozen=True)
class Piece:
    """Text of a page with its location."""

    file: Path
    line: int
    text: str

    @property
    def place(self) -> str:
        file = self.file.relative_to(ROOT) if self.file.is_relative_to(ROOT) else self.file
        return f"{file}:{self.line}"


@dataclass(frozen=True)
class Block(Piece):
    """A code block; `language` is that of the fence, or empty."""

    language: str = ""


@dataclass(frozen=True)
class Page:
    file: Path
    # Blocks and HTML comments in page order: a comment may refer to the next block.
    parts: list[Block | Piece]
    inline_code: list[Piece]
    links: list[Piece]
    anchors: set[str]

    @property
    def blocks(self) -> list[Block]:
        return [part for part in self.parts if isinstance(part, Block)]


@functools.cache
def read_page(file: Path) -> Page:
    page = Page(file, parts=[], inline_code=[], links=[], anchors=set())
    tokens = MarkdownIt("commonmark").enable("table").parse(file.read_text(encoding="utf-8"))
    line = 1
    for before, token in zip([None, *tokens], tokens, strict=False):
        # Table cells have no line number, but their row has.
        line = token.map[0] + 1 if token.map else line
        if token.type == "fence":
            page.parts.append(Block(file, line + 1, token.content, token.info.strip()))
        elif token.type == "code_block":
            page.parts.append(Block(file, line, token.content))
        elif token.type == "html_block":
            for comment in _COMMENT.findall(token.content):
                page.parts.append(Piece(file, line, comment.strip()))
        elif token.type == "inline":
            _read_inline(page, token, line)
            if before is not None and before.type == "heading_open":
                page.anchors.add(anchor_of(token))
    return page


def _read_inline(page: Page, token: Token, line: int) -> None:
    for child in token.children or ():
        if child.type == "code_inline":
            page.inline_code.append(Piece(page.file, line, child.content))
        elif child.type in ("link_open", "image"):
            target = child.attrGet("href" if child.type == "link_open" else "src")
            page.links.append(Piece(page.file, line, str(target)))


def anchor_of(heading: Token) -> str:
    """Return the anchor that GitHub and the site generate for a heading."""
    text = "".join(child.content for child in heading.children or ())
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
