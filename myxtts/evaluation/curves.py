"""Plots several runs in one picture: one panel per metric, one line per run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from PIL import Image

from myxtts.drawing import (
    Box,
    Canvas,
    Plot,
    Point,
    drawable,
    grid_corner,
    legend_pixels,
    series_colour,
    ticks_around,
)
from myxtts.evaluation.history import METRICS, RunHistory
from myxtts.evaluation.measure import Metric
from myxtts.evaluation.pictures import better_sign

PANEL_WIDTH, PANEL_HEIGHT = 480, 250
_PANELS_IN_ROW = 3
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 24, 48, 44
_TITLE_ABOVE_PLOT = 26


def draw_curves(runs: Mapping[str, RunHistory], axis: str) -> Image.Image:
    metrics = [
        metric for metric in METRICS if any(metric.name in run.curves for run in runs.values())
    ]
    heading = 16 + legend_pixels(len(runs))
    rows = -(-len(metrics) // _PANELS_IN_ROW)
    canvas = Canvas(_PANELS_IN_ROW * PANEL_WIDTH, heading + rows * PANEL_HEIGHT)
    names = [drawable(name, f"run {number}") for number, name in enumerate(runs, 1)]
    canvas.legend(names, _LEFT, 20)
    for number, metric in enumerate(metrics):
        x, y = grid_corner(number, _PANELS_IN_ROW, PANEL_WIDTH, PANEL_HEIGHT)
        curves = [run.curves.get(metric.name) for run in runs.values()]
        lines = [
            list(zip(curve.along(axis), curve.values, strict=True)) if curve else []
            for curve in curves
        ]
        draw_panel(canvas, (x, heading + y), metric, axis, lines)
    return canvas.image.quantize(64)


def draw_panel(
    canvas: Canvas,
    corner: tuple[int, int],
    metric: Metric,
    axis: str,
    lines: Sequence[Sequence[Point]],
    levels: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Draws each line in its own colour, and named levels as dashed lines."""
    x_ticks = ticks_around([0.0, *(x for line in lines for x, _ in line)])
    y_ticks = ticks_around([*(y for line in lines for _, y in line), *levels.values()])
    left, top = corner
    box = Box(left + _LEFT, top + _TOP, left + PANEL_WIDTH - _RIGHT, top + PANEL_HEIGHT - _BOTTOM)
    plot = Plot(canvas, box, (x_ticks[0], x_ticks[-1]), (y_ticks[0], y_ticks[-1]))
    plot.title(f"{metric.title} ({better_sign(metric)})", 15, _TITLE_ABOVE_PLOT)
    plot.y_axis(y_ticks)
    plot.x_axis(x_ticks, axis, label_below=True)
    for number, (name, level) in enumerate(levels.items()):
        # Levels may be close, so their names alternate between both ends.
        plot.level(level, name, name_at_left=number % 2 == 1)
    for number, line in enumerate(lines):
        plot.curve(line, series_colour(number))
