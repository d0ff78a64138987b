"""A line at the bottom of the terminal that is drawn anew while messages scroll above it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleRenderable

_REDRAWS_PER_SECOND = 4.0


class LiveLine(Live):
    """Shows what `text(width)` returns, several times a second; nothing outside a terminal.

    What is printed or logged meanwhile appears above the line. The line disappears at the end.
    """

    def __init__(self, console: Console, text: Callable[[int], Text]) -> None:
        self._text = text
        self._drawn = 0  # columns of the line on the screen
        super().__init__(
            console=console,
            get_renderable=self._draw,
            refresh_per_second=_REDRAWS_PER_SECOND,
            transient=True,
            # A program that sends its log elsewhere wants it there and not on the screen.
            redirect_stderr=os.isatty(2),
        )

    def _draw(self) -> Text:
        return self._text(self.console.width)

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Also clears the rows into which a narrower window has wrapped the line."""
        width = max(1, self.console.width)
        extra_rows = max(0, -(-self._drawn // width) - 1) if _window_wraps_again() else 0
        up = [(ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)] * extra_rows
        self._drawn = self._draw().cell_len
        return [Control(*up), *super().process_renderables(renderables)]


def _window_wraps_again() -> bool:
    """Most terminals wrap lines again when their width changes; xterm and screen cut them off."""
    return not {"XTERM_VERSION", "STY"} & os.environ.keys()
