"""Charts as PNG: bars, curves and heat maps with axes, ticks and legends.

Knows nothing of the meaning of the numbers or the layout of a picture; that is the caller's job.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]
Point = tuple[float, float]

WHITE, INK, SOFT_INK, GRID = (255, 255, 255), (33, 37, 41), (92, 99, 106), (226, 229, 233)
BLUE, LIGHT_BLUE, ORANGE, RED = (74, 122, 176), (143, 176, 210), (214, 126, 20), (190, 44, 44)
SERIES_COLOURS: tuple[Colour, ...] = (
    BLUE, ORANGE, (88, 150, 88), RED,
    (130, 98, 170), (120, 86, 70), (200, 110, 170), (110, 110, 110),
)  # fmt: skip
# From lowest to highest.
HEAT = ((8, 9, 38), (72, 22, 105), (176, 50, 92), (242, 136, 44), (252, 246, 190))
GREYS = (WHITE, (0, 0, 0))

_SHADES = 64
_DASH_PIXELS = 6
_POINT_PIXELS = 4
# Curves with more points are drawn without markers.
_MOST_POINTS = 30
_TITLE_SIZE = 15
BAR_ROW_PIXELS, _BAR_PIXELS = 26, 18
_LEGEND_LINE_PIXELS, _LEGEND_ROW_PIXELS = 30, 26


def as_png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def drawable(name: str, otherwise: str) -> str:
    """The name, or `otherwise` if it is not ASCII: Pillow's own font has Latin letters only."""
    return name if name.isascii() else otherwise


def text_width(words: str, size: int) -> float:
    return _font(size).getlength(words)


def series_colour(number: int) -> Colour:
    return SERIES_COLOURS[number % len(SERIES_COLOURS)]


class Canvas:
    """A white image to draw on; coordinates are pixels from the upper left corner."""

    def __init__(self, width: int, height: int) -> None:
        self.image = Image.new("RGB", (width, height), WHITE)
        self._draw = ImageDraw.Draw(self.image)

    def text(
        self, place: Point, words: str, size: int, colour: Colour = INK, anchor: str = "lm"
    ) -> None:
        """`anchor` as in Pillow; the default is left-aligned and vertically centred."""
        self._draw.text(place, words, colour, _font(size), anchor=anchor)

    def line(self, points: Sequence[Point], colour: Colour = INK, width: int = 1) -> None:
        self._draw.line(points, colour, width, joint="curve" if len(points) > 2 else None)

    def dashes(self, left: float, right: float, y: float, colour: Colour) -> None:
        for x in range(int(left), int(right), 2 * _DASH_PIXELS):
            self.line([(x, y), (x + _DASH_PIXELS, y)], colour)

    def rectangle(self, corner: Point, opposite: Point, colour: Colour) -> None:
        self._draw.rectangle([corner, opposite], colour)

    def disc(self, middle: Point, radius: float, colour: Colour) -> None:
        x, y = middle
        self._draw.ellipse([(x - radius, y - radius), (x + radius, y + radius)], colour)

    def paste(self, picture: Image.Image, x: int, y: int) -> None:
        self.image.paste(picture.convert("RGB"), (x, y))

    def legend(self, names: Iterable[str], x: float, y: float) -> None:
        """One row per name with a line in its colour; `y` is the middle of the first row."""
        for number, name in enumerate(names):
            middle = y + number * _LEGEND_ROW_PIXELS
            end = x + _LEGEND_LINE_PIXELS
            self.line([(x, middle), (end, middle)], series_colour(number), width=3)
            self.text((end + 10, middle), name, _TITLE_SIZE)


def legend_pixels(names: int) -> int:
    """Height of a legend with this many names."""
    return names * _LEGEND_ROW_PIXELS


class Box(NamedTuple):
    """A rectangle on a canvas."""

    left: int
    top: int
    right: int
    bottom: int


def grid_corner(number: int, columns: int, width: int, height: int) -> tuple[int, int]:
    """Upper left corner of a panel in a grid of equal panels, row by row."""
    row, column = divmod(number, columns)
    return column * width, row * height


class Plot:
    """A box with an x axis and a y axis, each with a range of values."""

    def __init__(
        self, canvas: Canvas, box: Box, x_ends: Point, y_ends: Point, text_size: int = 12
    ) -> None:
        self.canvas = canvas
        self.box = box
        self._x_ends, self._y_ends = x_ends, y_ends
        self._text_size = text_size
        self._gap = round(text_size * 2 / 3)
        self._tick = text_size // 3

    def x(self, value: float) -> float:
        first, last = self._x_ends
        return self.box.left + (value - first) / (last - first) * (self.box.right - self.box.left)

    def y(self, value: float) -> float:
        first, last = self._y_ends
        return self.box.bottom - (value - first) / (last - first) * (self.box.bottom - self.box.top)

    def title(self, words: str, size: int, above: int) -> None:
        """Drawn `above` pixels above the box."""
        self.canvas.text((self.box.left, self.box.top - above), words, size)

    def notes(self, notes: Sequence[tuple[str, Colour]], size: int, above: int) -> None:
        """Drawn on the line of the title, right-aligned."""
        right = float(self.box.right)
        for words, colour in reversed(notes):
            self.canvas.text((right, self.box.top - above), words, size, colour, anchor="rm")
            right -= text_width(words, size) + 28

    def y_axis(self, ticks: Sequence[float], label: str = "", *, grid: bool = True) -> None:
        """Tick labels with grid lines, or with an axis line; the label is above."""
        left, _, right, bottom = self.box
        text_end = left - self._gap
        if not grid:
            self.canvas.line([(left, self.box.top), (left, bottom)])
        for tick in ticks:
            y = self.y(tick)
            if grid:
                self.canvas.line([(left, y), (right, y)], GRID)
            else:
                self.canvas.line([(left - self._tick, y), (left, y)])
            self._soft_text((text_end, y), number_text(tick), "rm")
        self._soft_text((text_end, self.box.top - 22), label, "rm")

    def x_axis(self, ticks: Sequence[float], label: str = "", *, label_below: bool = False) -> None:
        """Axis line with ticks below the box; the label is at its end or below it."""
        bottom = self.box.bottom
        self._base_line()
        for tick in ticks:
            x = self.x(tick)
            self.canvas.line([(x, bottom), (x, bottom + self._tick)])
            self._soft_text((x, bottom + self._tick + 4), number_text(tick), "ma")
        if label_below:
            self._soft_text((self.box.right, bottom + 26), label, "ra")
        else:
            self._soft_text((self.box.right + 14, bottom), label, "lm")

    def names_axis(self, names: Sequence[str]) -> None:
        """Names of bars of width 1 instead of numbers."""
        self._base_line()
        for number, name in enumerate(names):
            place = (self.x(number + 0.5), self.box.bottom + self._tick + 4)
            self.canvas.text(place, name, self._text_size - 1, SOFT_INK, anchor="ma")

    def bars(
        self, heights: Sequence[float], width: float, colour: Colour = BLUE, *, widest: int = 0
    ) -> None:
        """Adjacent bars from zero; with `widest` pixels, separate ones."""
        bottom = self.box.bottom
        for number, height in enumerate(heights):
            if height <= 0:
                continue
            left = round(self.x(number * width)) + 1
            right = round(self.x((number + 1) * width)) - 1
            if widest:
                inset = max((right - left) // 5, (right - left - widest) // 2)
                left, right = left + inset, right - inset
            # Even a tiny value leaves a visible line.
            top = min(round(self.y(height)), bottom - 2)
            self.canvas.rectangle((left, top), (max(left, right), bottom), colour)

    def curve(self, points: Sequence[Point], colour: Colour) -> None:
        places = [(self.x(x), self.y(y)) for x, y in points]
        if len(places) > 1:
            self.canvas.line(places, colour, width=2)
        # A curve with few points needs markers to be visible.
        if len(places) <= _MOST_POINTS:
            for place in places:
                self.canvas.disc(place, _POINT_PIXELS, colour)

    def level(self, value: float, name: str, *, name_at_left: bool = False) -> None:
        """A dashed horizontal line with a name above one end."""
        y = self.y(value)
        self.canvas.dashes(self.box.left, self.box.right, y, SOFT_INK)
        x, anchor = (self.box.left + 4, "ld") if name_at_left else (self.box.right, "rd")
        self._soft_text((x, y - 2), name, anchor)

    def mark(self, value: float, colour: Colour) -> None:
        """A vertical line that extends a little above the box."""
        x = round(self.x(value))
        self.canvas.line([(x, self.box.top - 8), (x, self.box.bottom)], colour, width=2)

    def _base_line(self) -> None:
        self.canvas.line([(self.box.left, self.box.bottom), (self.box.right, self.box.bottom)])

    def _soft_text(self, place: Point, words: str, anchor: str) -> None:
        self.canvas.text(place, words, self._text_size, SOFT_INK, anchor)


@dataclass(frozen=True)
class BarRow:
    """A horizontal bar with a name on its left and its value on its right."""

    name: str
    value: float | None
    text: str
    colour: Colour


def bar_rows(canvas: Canvas, corner: tuple[int, int], rows: Sequence[BarRow], width: int) -> None:
    """Rows of bars; the longest has `width`. Negative values get a one-pixel bar."""
    name_pixels = 120
    left, top = corner
    largest = max((abs(row.value) for row in rows if row.value is not None), default=0) or 1.0
    for number, row in enumerate(rows):
        y = top + number * BAR_ROW_PIXELS
        middle = y + _BAR_PIXELS / 2
        canvas.text((left, middle), row.name, 12, SOFT_INK)
        if row.value is None:
            continue
        start = left + name_pixels
        end = start + max(1, round(max(row.value, 0.0) / largest * width))
        canvas.rectangle((start, y), (end, y + _BAR_PIXELS), row.colour)
        canvas.text((end + 6, middle), row.text, 12)


def heat_map(
    values: npt.NDArray[np.float32],
    gradient: Sequence[Colour] = HEAT,
    cell: tuple[int, int] = (1, 1),
) -> Image.Image:
    """[columns, rows] of values from 0 to 1 as a palette image, first row at the bottom.

    `cell` is the width and height of a value in pixels. A palette keeps the PNG small.
    """
    shades = (np.clip(values.T[::-1], 0, 1) * (_SHADES - 1)).astype(np.uint8)
    picture = Image.fromarray(np.repeat(np.repeat(shades, cell[1], axis=0), cell[0], axis=1))
    picture.putpalette(_palette(gradient).tobytes())
    return picture


def labelled_heat_map(
    picture: Image.Image, cells: tuple[int, int], title: str, x_label: str, y_label: str
) -> Image.Image:
    """A heat map of `cells` columns and rows with a title and axes that count them."""
    left, top, right, bottom = 72, 40, 96, 36
    box = Box(left, top, left + picture.width, top + picture.height)
    width = max(picture.width + right, math.ceil(text_width(title, _TITLE_SIZE)) + 8)
    canvas = Canvas(left + width, box.bottom + bottom)
    plot = Plot(canvas, box, (0.0, cells[0]), (0.0, cells[1]))
    plot.title(title, _TITLE_SIZE, 22)
    x_ticks, y_ticks = (
        [
            tick
            for tick in round_ticks(count, most=max(1, pixels // 50), whole=True)
            if tick <= count
        ]
        for count, pixels in zip(cells, picture.size, strict=True)
    )
    canvas.paste(picture, left, top)
    plot.y_axis(y_ticks, y_label, grid=False)
    plot.x_axis(x_ticks, x_label)
    return canvas.image


def _palette(gradient: Sequence[Colour]) -> npt.NDArray[np.uint8]:
    places = np.linspace(0, 1, len(gradient))
    channels = [
        np.interp(np.linspace(0, 1, _SHADES), places, part) for part in np.array(gradient).T
    ]
    return np.stack(channels, axis=1).round().astype(np.uint8)


def round_step(least_step: float) -> float:
    """The smallest 1, 2 or 5 times a power of ten that is at least `least_step`."""
    wanted = max(least_step, 1e-9)
    magnitude = 10.0 ** math.floor(math.log10(wanted))
    return next(
        factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= wanted * (1 - 1e-9)
    )


def round_ticks(end: float, *, most: int, whole: bool = False) -> list[float]:
    """Round numbers from zero to `end` or just past it, in at most `most` steps."""
    step = round_step(end / most)
    if whole:
        step = max(1.0, step)
    return [number * step for number in range(math.ceil(end / step - 1e-9) + 1)]


def ticks_around(values: Sequence[float], steps: int = 5) -> list[float]:
    """At least two round numbers that enclose all values."""
    lowest, highest = min(values), max(values)
    step = round_step((highest - lowest or abs(highest) or 1.0) / steps)
    first = math.floor(lowest / step)
    last = max(math.ceil(highest / step), first + 1)
    return [number * step for number in range(first, last + 1)]


def number_text(value: float, digits: int = 6) -> str:
    """The number with `digits` significant digits, or all digits of its integer part."""
    rounded = round(value, max(0, digits - 1 - math.floor(math.log10(max(abs(value), 1e-9)))))
    return f"{rounded:,.0f}" if rounded == int(rounded) else f"{rounded:,g}"


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
