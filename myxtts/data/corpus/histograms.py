"""One picture of a corpus: how long its clips and texts are, and how much each speaker says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from myxtts.data.corpus.statistics import CorpusMeasures
from myxtts.errors import DataError
from myxtts.whole_files import whole_file
from myxtts.wording import plural

_WIDTH_PIXELS = 1_200
_HEADING_PIXELS = 76
_PANEL_PIXELS = 380
# Inside a panel: room for labels around the plot.
_LEFT, _RIGHT, _TOP, _BOTTOM = 96, 140, 76, 66

_WHITE = (255, 255, 255)
_INK = (33, 37, 41)
_SOFT_INK = (92, 99, 106)
_GRID = (226, 229, 233)
_BAR = (74, 122, 176)
_PERCENTILE_COLOURS = {95: (214, 126, 20), 99: (190, 44, 44)}

_FEWEST_BINS, _MOST_BINS = 20, 60
_TIME_UNITS = (("hours", 3_600), ("minutes", 60), ("seconds", 1))
_UNIT_SIGNS = {"seconds": "s", "minutes": "min", "hours": "h"}
_MOST_NAMED_SPEAKERS = 12
_LONGEST_NAME = 10
_WIDEST_NAMED_BAR = 120
# Longer clips share the last bar, so that a few of them do not squeeze all others together.
_AXIS_END_IN_PERCENTILE_99 = 1.5

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Bars:
    title: str
    x_label: str
    y_label: str
    heights: npt.NDArray[np.int64] | Values
    bar_width: float
    """In units of the x axis, which starts at zero."""
    names: tuple[str, ...] = ()
    """One per bar, in place of numbers on the x axis."""
    percentiles: tuple[tuple[int, float], ...] = ()
    unit: str = ""

    @property
    def right(self) -> float:
        return self.bar_width * len(self.heights)


def save_histograms(measures: CorpusMeasures, file: Path) -> None:
    """Writes the PNG beside its place and moves it there when whole."""
    image = draw_histograms(measures)
    try:
        with whole_file(file) as stream:
            image.save(stream, format="PNG", optimize=True)
    except OSError as error:
        raise DataError(f"{file}: cannot be written ({error.strerror or error})") from None


def draw_histograms(measures: CorpusMeasures) -> Image.Image:
    panels = [
        _histogram(measures.seconds, "Length of the clips", "seconds", "clips"),
        _histogram(measures.token_counts, "Length of the texts", "tokens", "clips"),
        _speech_per_speaker(measures),
    ]
    height = _HEADING_PIXELS + len(panels) * _PANEL_PIXELS
    image = Image.new("RGB", (_WIDTH_PIXELS, height), _WHITE)
    draw = ImageDraw.Draw(image)
    heading = (
        f"{_counted(len(measures), 'clip')}, {measures.seconds.sum() / 3_600:.2f} hours, "
        f"{_counted(len(measures.speakers), 'speaker')}, "
        f"{_counted(len(measures.languages), 'language')}"
    )
    draw.text((_LEFT, _HEADING_PIXELS / 2 + 8), heading, _INK, _font(26), anchor="lm")
    for number, bars in enumerate(panels):
        _Panel(draw, bars, _HEADING_PIXELS + number * _PANEL_PIXELS).draw()
    return image


def _histogram(values: npt.NDArray[np.generic], title: str, unit: str, of: str) -> _Bars:
    numbers = values.astype(np.float64)
    percentiles = np.percentile(numbers, [95, 99], method="inverted_cdf")
    end = min(numbers.max(), _AXIS_END_IN_PERCENTILE_99 * percentiles[1])
    width = round_step(end / min(_MOST_BINS, max(_FEWEST_BINS, 2 * math.sqrt(numbers.size))))
    if np.issubdtype(values.dtype, np.integer):
        width = max(1.0, width)
    bins = math.floor(end / width) + 1
    beyond = int((numbers >= bins * width).sum())
    note = f" (last bar: {beyond} more, up to {numbers.max():,.0f} {unit})" if beyond else ""
    return _Bars(
        title=title + note,
        x_label=unit,
        y_label=of,
        heights=np.bincount(np.minimum(numbers // width, bins - 1).astype(np.int64)),
        bar_width=width,
        percentiles=((95, float(percentiles[0])), (99, float(percentiles[1]))),
        unit=_UNIT_SIGNS.get(unit, unit),
    )


def _speech_per_speaker(measures: CorpusMeasures) -> _Bars:
    """A bar for each of a few speakers; of many speakers, how many say how much."""
    seconds = measures.seconds_of_speakers
    unit, unit_seconds = next(
        (unit, size) for unit, size in _TIME_UNITS if np.median(seconds) >= 2 * size or size == 1
    )
    speech = seconds / unit_seconds
    title = "Speech of each speaker"
    if len(speech) > _MOST_NAMED_SPEAKERS:
        return _histogram(speech, title, unit, "speakers")
    order = np.argsort(-speech, kind="stable")
    names = tuple(
        _drawable(measures.speakers[number], place) for place, number in enumerate(order, 1)
    )
    return _Bars(title, "", unit, speech[order], 1.0, names)


def _drawable(name: str, place: int) -> str:
    """The font that Pillow brings has Latin letters only."""
    if not name.isascii():
        return f"no. {place}"
    if len(name) <= _LONGEST_NAME:
        return name
    # Names of one corpus often start alike.
    return f"{name[:4]}..{name[-4:]}"


class _Panel:
    """One plot in the picture: `top` is where its part of the picture starts."""

    def __init__(self, draw: ImageDraw.ImageDraw, bars: _Bars, top: int) -> None:
        self._draw = draw
        self._bars = bars
        self._title_y = top + 18
        self._top = top + _TOP
        self._bottom = top + _PANEL_PIXELS - _BOTTOM
        counts = np.issubdtype(bars.heights.dtype, np.integer)
        self._y_ticks = round_ticks(float(bars.heights.max()), most=5, whole=counts)

    def draw(self) -> None:
        bars = self._bars
        self._draw.text((_LEFT, self._title_y), bars.title, _INK, _font(20), anchor="lm")
        self._draw_y_axis()
        self._draw_bars()
        if bars.names:
            self._draw_names()
        else:
            self._draw_x_axis()
        self._draw_percentiles()

    def _x(self, value: float) -> float:
        return _LEFT + value / self._bars.right * (_WIDTH_PIXELS - _LEFT - _RIGHT)

    def _y(self, value: float) -> float:
        return self._bottom - value / self._y_ticks[-1] * (self._bottom - self._top)

    def _draw_y_axis(self) -> None:
        for tick in self._y_ticks:
            y = self._y(tick)
            self._draw.line([(_LEFT, y), (_WIDTH_PIXELS - _RIGHT, y)], _GRID)
            self._draw.text((_LEFT - 10, y), _number(tick), _SOFT_INK, _font(15), anchor="rm")
        self._draw.text(
            (_LEFT - 10, self._top - 22), self._bars.y_label, _SOFT_INK, _font(15), anchor="rm"
        )

    def _draw_bars(self) -> None:
        bars = self._bars
        for place, height in enumerate(bars.heights):
            if height > 0:
                left = round(self._x(place * bars.bar_width)) + 1
                right = round(self._x((place + 1) * bars.bar_width)) - 1
                if bars.names:
                    inset = max((right - left) // 5, (right - left - _WIDEST_NAMED_BAR) // 2)
                    left, right = left + inset, right - inset
                # Even one clip among thousands leaves a line to be seen.
                top = min(round(self._y(float(height))), self._bottom - 2)
                self._draw.rectangle([(left, top), (max(left, right), self._bottom)], _BAR)
        self._draw.line([(_LEFT, self._bottom), (_WIDTH_PIXELS - _RIGHT, self._bottom)], _INK)

    def _draw_x_axis(self) -> None:
        bars = self._bars
        for tick in round_ticks(bars.right, most=12):
            if tick <= bars.right:
                x = self._x(tick)
                self._draw.line([(x, self._bottom), (x, self._bottom + 5)], _INK)
                place = (x, self._bottom + 9)
                self._draw.text(place, _number(tick), _SOFT_INK, _font(15), anchor="ma")
        end = (_WIDTH_PIXELS - _RIGHT + 14, self._bottom)
        self._draw.text(end, bars.x_label, _SOFT_INK, _font(15), anchor="lm")

    def _draw_names(self) -> None:
        for place, name in enumerate(self._bars.names):
            middle = (self._x(place + 0.5), self._bottom + 9)
            self._draw.text(middle, name, _SOFT_INK, _font(14), anchor="ma")

    def _draw_percentiles(self) -> None:
        """A line for each, and what they stand for at the right of the title."""
        label_end = float(_WIDTH_PIXELS - _RIGHT)
        for percent, value in reversed(self._bars.percentiles):
            colour = _PERCENTILE_COLOURS[percent]
            x = round(self._x(value))
            self._draw.line([(x, self._top - 8), (x, self._bottom)], colour, width=2)
            label = f"{percent}% up to {_short_number(value)} {self._bars.unit}"
            self._draw.text((label_end, self._title_y), label, colour, _font(16), anchor="rm")
            label_end -= self._draw.textlength(label, _font(16)) + 28


def round_step(least_step: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, 50, ... or their tenths and so on that is not below."""
    wanted = max(least_step, 1e-9)
    magnitude = 10.0 ** math.floor(math.log10(wanted))
    return next(
        factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= wanted * (1 - 1e-9)
    )


def round_ticks(end: float, *, most: int, whole: bool = False) -> Sequence[float]:
    """Round numbers from zero to `end` or just past it, in at most `most` steps."""
    step = round_step(end / most)
    if whole:
        step = max(1.0, step)
    return [number * step for number in range(math.ceil(end / step - 1e-9) + 1)]


def _number(value: float) -> str:
    rounded = round(value, 2)
    return f"{rounded:,.0f}" if rounded == int(rounded) else f"{rounded:,g}"


def _short_number(value: float) -> str:
    """Three digits are enough beside a line."""
    return _number(round(value, max(0, 2 - math.floor(math.log10(max(value, 1e-9))))))


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {plural(count, noun)}"


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
