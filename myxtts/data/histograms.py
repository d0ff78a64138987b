"""Histograms of a corpus: clip lengths, text lengths and hours per speaker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from myxtts.charts import BLUE, ORANGE, RED, as_png, new_figure, plain, style
from myxtts.data.statistics import CorpusMeasures
from myxtts.errors import DataError, plural
from myxtts.files import write_file

_PERCENTILE_COLORS = {95: ORANGE, 99: RED}
_MIN_BINS, _MAX_BINS = 20, 60
_TIME_UNITS = (("hours", 3_600), ("minutes", 60), ("seconds", 1))
_MAX_NAMED_SPEAKERS = 12
_LONGEST_NAME = 10
# Longer clips share the last bar, so that outliers do not compress the rest.
_AXIS_END_IN_PERCENTILE_99 = 1.5


def save_histograms(measures: CorpusMeasures, file: Path) -> None:
    """Write the PNG atomically."""
    picture = as_png(draw_histograms(measures))
    try:
        write_file(file, picture)
    except OSError as error:
        raise DataError(f"{file}: cannot be written ({error.strerror or error})") from None


def draw_histograms(measures: CorpusMeasures) -> Figure:
    figure = new_figure(1_200, 1_200)
    figure.suptitle(
        f"{_counted(len(measures), 'clip')}, {measures.seconds.sum() / 3_600:.2f} hours, "
        f"{_counted(len(measures.speakers), 'speaker')}, "
        f"{_counted(len(measures.languages), 'language')}",
        fontsize=16,
    )
    lengths, texts, speakers = figure.subplots(3)
    _draw_histogram(lengths, measures.seconds, "Clip length", "seconds", "clips")
    _draw_histogram(texts, measures.token_counts, "Text length", "tokens", "clips")
    _draw_speakers(speakers, measures)
    return figure


def _draw_histogram(
    panel: Axes, values: npt.NDArray[np.generic], title: str, unit: str, of: str
) -> None:
    numbers = values.astype(np.float64)
    percentiles = np.percentile(numbers, list(_PERCENTILE_COLORS), method="inverted_cdf")
    end = min(numbers.max(), _AXIS_END_IN_PERCENTILE_99 * percentiles[-1])
    bins = int(np.clip(2 * np.sqrt(numbers.size), _MIN_BINS, _MAX_BINS))
    if np.issubdtype(values.dtype, np.integer):
        # A bar must not hold more whole numbers than the next one.
        width = max(1, round(end / bins))
        edges = np.arange(0, end + width + 1, width, dtype=np.float64)
    else:
        edges = np.linspace(0, end, bins + 1)
    beyond = int((numbers > edges[-1]).sum())
    note = f" (last bar: {beyond} more, up to {numbers.max():,.0f} {unit})" if beyond else ""
    panel.hist(np.minimum(numbers, edges[-1]), bins=edges.tolist(), color=BLUE, rwidth=0.9)
    for (percent, color), value in zip(_PERCENTILE_COLORS.items(), percentiles, strict=True):
        panel.axvline(value, color=color, label=f"{percent}% up to {value:,.3g} {unit}")
    panel.legend(loc="upper right", bbox_to_anchor=(1, 1.15), ncols=2, frameon=False)
    panel.set_xlabel(unit)
    panel.set_ylabel(of)
    style(panel, title + note)


def _draw_speakers(panel: Axes, measures: CorpusMeasures) -> None:
    """Draw a bar per speaker; with many speakers, a histogram over speakers."""
    seconds = measures.seconds_of_speakers
    unit, unit_seconds = next(
        (unit, size) for unit, size in _TIME_UNITS if np.median(seconds) >= 2 * size or size == 1
    )
    speech, title = seconds / unit_seconds, "Audio per speaker"
    if len(speech) > _MAX_NAMED_SPEAKERS:
        _draw_histogram(panel, speech, title, unit, "speakers")
        return
    order = np.argsort(-speech, kind="stable")
    panel.bar(range(len(order)), speech[order], width=0.6, color=BLUE)
    panel.set_xticks(range(len(order)), [_short_name(measures.speakers[place]) for place in order])
    panel.set_ylabel(unit)
    style(panel, title)


def _short_name(name: str) -> str:
    # Names in a corpus often share a prefix.
    return plain(name if len(name) <= _LONGEST_NAME else f"{name[:4]}..{name[-4:]}")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {plural(count, noun)}"
