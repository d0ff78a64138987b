"""Histograms of a corpus: clip lengths, text lengths and hours per speaker."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from myxtts.data.corpus.statistics import CorpusMeasures
from myxtts.drawing import (
    ORANGE,
    RED,
    Box,
    Canvas,
    Plot,
    as_png,
    drawable,
    number_text,
    round_step,
    round_ticks,
)
from myxtts.errors import DataError
from myxtts.whole_files import write_whole_file
from myxtts.wording import plural

_WIDTH_PIXELS = 1_200
_HEADING_PIXELS = 76
_PANEL_PIXELS = 380
# Inside a panel: room for labels around the plot.
_LEFT, _RIGHT, _TOP, _BOTTOM = 96, 140, 76, 66
_TITLE_ABOVE_PLOT = 58

_PERCENTILE_COLOURS = {95: ORANGE, 99: RED}

_FEWEST_BINS, _MOST_BINS = 20, 60
_TIME_UNITS = (("hours", 3_600), ("minutes", 60), ("seconds", 1))
_UNIT_SIGNS = {"seconds": "s", "minutes": "min", "hours": "h"}
_MOST_NAMED_SPEAKERS = 12
_LONGEST_NAME = 10
_WIDEST_NAMED_BAR = 120
# Longer clips share the last bar, so that outliers do not compress the rest.
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
    """Writes the PNG atomically."""
    image = draw_histograms(measures)
    try:
        write_whole_file(file, as_png(image))
    except OSError as error:
        raise DataError(f"{file}: cannot be written ({error.strerror or error})") from None


def draw_histograms(measures: CorpusMeasures) -> Image.Image:
    panels = [
        _histogram(measures.seconds, "Clip length", "seconds", "clips"),
        _histogram(measures.token_counts, "Text length", "tokens", "clips"),
        _speech_per_speaker(measures),
    ]
    canvas = Canvas(_WIDTH_PIXELS, _HEADING_PIXELS + len(panels) * _PANEL_PIXELS)
    heading = (
        f"{_counted(len(measures), 'clip')}, {measures.seconds.sum() / 3_600:.2f} hours, "
        f"{_counted(len(measures.speakers), 'speaker')}, "
        f"{_counted(len(measures.languages), 'language')}"
    )
    canvas.text((_LEFT, _HEADING_PIXELS / 2 + 8), heading, 26)
    for number, bars in enumerate(panels):
        _draw_panel(canvas, bars, _HEADING_PIXELS + number * _PANEL_PIXELS)
    return canvas.image


def _draw_panel(canvas: Canvas, bars: _Bars, top: int) -> None:
    counts = np.issubdtype(bars.heights.dtype, np.integer)
    y_ticks = round_ticks(float(bars.heights.max()), most=5, whole=counts)
    box = Box(_LEFT, top + _TOP, _WIDTH_PIXELS - _RIGHT, top + _PANEL_PIXELS - _BOTTOM)
    plot = Plot(canvas, box, (0.0, bars.right), (0.0, y_ticks[-1]), text_size=15)
    plot.title(bars.title, 20, _TITLE_ABOVE_PLOT)
    plot.y_axis(y_ticks, bars.y_label)
    plot.bars(bars.heights.tolist(), bars.bar_width, widest=_WIDEST_NAMED_BAR if bars.names else 0)
    if bars.names:
        plot.names_axis(bars.names)
    else:
        ticks = round_ticks(bars.right, most=12)
        plot.x_axis([tick for tick in ticks if tick <= bars.right], bars.x_label)
    for percent, value in reversed(bars.percentiles):
        plot.mark(value, _PERCENTILE_COLOURS[percent])
    notes = [
        (
            f"{percent}% up to {number_text(value, digits=3)} {bars.unit}",
            _PERCENTILE_COLOURS[percent],
        )
        for percent, value in bars.percentiles
    ]
    plot.notes(notes, 16, _TITLE_ABOVE_PLOT)


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
    """One bar per speaker; with many speakers, a histogram over speakers."""
    seconds = measures.seconds_of_speakers
    unit, unit_seconds = next(
        (unit, size) for unit, size in _TIME_UNITS if np.median(seconds) >= 2 * size or size == 1
    )
    speech = seconds / unit_seconds
    title = "Audio per speaker"
    if len(speech) > _MOST_NAMED_SPEAKERS:
        return _histogram(speech, title, unit, "speakers")
    order = np.argsort(-speech, kind="stable")
    names = tuple(
        _short_name(measures.speakers[number], place) for place, number in enumerate(order, 1)
    )
    return _Bars(title, "", unit, speech[order], 1.0, names)


def _short_name(name: str, place: int) -> str:
    shown = drawable(name, f"no. {place}")
    if len(shown) <= _LONGEST_NAME:
        return shown
    # Names in a corpus often share a prefix.
    return f"{shown[:4]}..{shown[-4:]}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {plural(count, noun)}"
