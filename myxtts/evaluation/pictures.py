"""Charts of evaluations and runs: mel spectrograms, bars of metrics, curves over training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from myxtts.audio.mel import clip_log_mel
from myxtts.charts import BLUE, GRAY, HEAT, LIGHT_BLUE, ORANGE, new_figure, plain, style
from myxtts.config.config import AudioConfig
from myxtts.evaluation.evaluate import MODEL, RECORDINGS, Evaluation
from myxtts.evaluation.history import METRICS, RunHistory
from myxtts.evaluation.measure import Metric, Sound

_COLUMN_COLORS = {RECORDINGS: BLUE, MODEL: ORANGE}
_DYNAMIC_RANGE_NEPERS = 8.0
_MELS = 80
_SHEET_SENTENCES = 4
_PANELS_IN_ROW = 3
PANEL_WIDTH, PANEL_HEIGHT = 480, 250
# Curves with more points are drawn without markers.
_MAX_MARKERS = 30


def mel_shades(sound: Sound) -> npt.NDArray[np.float32]:
    """Return the log-mel of a clip as [frames, mels] with 1 at the loudest."""
    audio = AudioConfig(
        sample_rate_hz=sound.sample_rate_hz, highest_hz=min(8_000.0, sound.sample_rate_hz / 2)
    )
    log_mel = clip_log_mel(audio, _MELS)(sound.waveform)
    shades: npt.NDArray[np.float32] = (log_mel - log_mel.max()) / _DYNAMIC_RANGE_NEPERS + 1
    return shades


def mel_sheet(evaluation: Evaluation) -> Figure:
    """Draw the mels of the first sentences: a row per sentence, a column per source."""
    columns, sentences = evaluation.columns, evaluation.sentences[:_SHEET_SENTENCES]
    clips = [clip for clip in evaluation.clips if clip.sentence in sentences]
    figure = new_figure(420 * len(columns), 40 + 170 * len(sentences))
    # All on one time scale, so that faster speech is narrower.
    panels = figure.subplots(len(sentences), len(columns), sharex=True, squeeze=False)
    for panel, column in zip(panels[0], columns, strict=True):
        panel.set_title(column, fontsize=11)
    for panel in panels.flat:
        panel.set_axis_off()
    for clip in clips:
        panel = panels[sentences.index(clip.sentence), columns.index(clip.column)]
        extent = (0.0, clip.sound.seconds, 0.0, 1.0)
        shades = mel_shades(clip.sound).T
        panel.imshow(
            shades, cmap=HEAT, vmin=0, vmax=1, origin="lower", extent=extent, aspect="auto"
        )
    panels[0, 0].set_xlim(0, max(clip.sound.seconds for clip in clips))
    return figure


def bars_picture(evaluation: Evaluation) -> Figure:
    """Draw a panel per metric that has values, with a bar per column."""
    metrics = [
        metric
        for metric in evaluation.toolbox.metrics
        if any(evaluation.mean(column, metric) is not None for column in evaluation.columns)
    ]
    colors = [_COLUMN_COLORS.get(column, LIGHT_BLUE) for column in evaluation.columns]
    figure, panels = _panels(len(metrics), 60 + 30 * len(evaluation.columns))
    for panel, metric in zip(panels, metrics, strict=True):
        values = [evaluation.mean(column, metric) for column in evaluation.columns]
        bars = panel.barh(evaluation.columns, [value or 0.0 for value in values], color=colors)
        texts = ["" if value is None else f"{value:.{metric.decimals}f}" for value in values]
        panel.bar_label(bars, texts, padding=4)
        style(panel, f"{metric.title} ({better_sign(metric)})")
        panel.grid(visible=False)
        panel.invert_yaxis()
        panel.margins(x=0.2)
        panel.set_xticks([])
    return figure


def draw_curves(runs: Mapping[str, RunHistory], axis: str) -> Figure:
    """Draw a panel per metric with a line per run over steps, hours or utterances."""
    metrics = [
        metric for metric in METRICS if any(metric.name in run.curves for run in runs.values())
    ]
    figure, panels = _panels(len(metrics), PANEL_HEIGHT)
    for panel, metric in zip(panels, metrics, strict=True):
        curves = [run.curves.get(metric.name) for run in runs.values()]
        lines = [(curve.along(axis), curve.values) if curve else ((), ()) for curve in curves]
        draw_panel(panel, metric, axis, lines)
    figure.legend(panels[0].lines, map(plain, runs), loc="outside upper left")
    return figure


def draw_panel(
    panel: Axes,
    metric: Metric,
    axis: str,
    lines: Sequence[tuple[Sequence[float], Sequence[float]]],
    levels: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Draw the curves of one metric, and named levels as dashed lines."""
    style(panel, f"{metric.title} ({better_sign(metric)})")
    panel.set_xlabel(axis)
    for along, values in lines:
        panel.plot(along, values, marker="o" if len(values) <= _MAX_MARKERS else "")
    for number, (name, level) in enumerate(levels.items()):
        panel.axhline(level, color=GRAY, linestyle="--", linewidth=1)
        # Levels may be close, so their names alternate between both ends.
        place, side = ((0.0, "left"), (1.0, "right"))[number % 2]
        transform = panel.get_yaxis_transform()
        panel.text(
            place, level, name, color=GRAY, fontsize=9, ha=side, va="bottom", transform=transform
        )


def better_sign(metric: Metric) -> str:
    return ", ".join(part for part in (metric.unit, f"better: {metric.better}") if part)


def _panels(count: int, height_pixels: int) -> tuple[Figure, list[Axes]]:
    """Lay out panels in rows on one figure."""
    rows = -(-count // _PANELS_IN_ROW)
    figure = new_figure(_PANELS_IN_ROW * PANEL_WIDTH, max(1, rows) * height_pixels + 40)
    places = range(1, count + 1)
    return figure, [figure.add_subplot(rows, _PANELS_IN_ROW, place) for place in places]
