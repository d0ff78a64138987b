"""Curves in panels; one picture of several runs: a panel for each metric, a line for each run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from PIL import Image, ImageDraw

from myxtts.data.corpus.histograms import round_step
from myxtts.evaluation.history import METRICS, RunHistory
from myxtts.evaluation.measure import Figure
from myxtts.evaluation.pictures import GRID, INK, SOFT_INK, WHITE, better_sign, font

_COLOURS = (
    (74, 122, 176), (214, 126, 20), (88, 150, 88), (190, 44, 44),
    (130, 98, 170), (120, 86, 70), (200, 110, 170), (110, 110, 110),
)  # fmt: skip
PANEL_WIDTH, PANEL_HEIGHT = 480, 250
_PANELS_IN_ROW = 3
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 24, 48, 44
_LEGEND_PIXELS = 26
_POINT_PIXELS = 4
_TICKS = 5
_DASH_PIXELS = 6

Points = Sequence[tuple[float, float]]


def draw_curves(runs: Mapping[str, RunHistory], axis: str) -> Image.Image:
    metrics = [
        metric for metric in METRICS if any(metric.name in run.curves for run in runs.values())
    ]
    heading = 16 + _LEGEND_PIXELS * len(runs)
    rows = -(-len(metrics) // _PANELS_IN_ROW)
    size = (_PANELS_IN_ROW * PANEL_WIDTH, heading + rows * PANEL_HEIGHT)
    image = Image.new("RGB", size, WHITE)
    draw = ImageDraw.Draw(image)
    for number, name in enumerate(runs):
        y = 20 + number * _LEGEND_PIXELS
        colour = _COLOURS[number % len(_COLOURS)]
        draw.line([(_LEFT, y), (_LEFT + 30, y)], colour, width=3)
        # The font that Pillow brings has Latin letters only.
        label = name if name.isascii() else f"run {number + 1}"
        draw.text((_LEFT + 40, y), label, INK, font(15), anchor="lm")
    for number, metric in enumerate(metrics):
        row, column = divmod(number, _PANELS_IN_ROW)
        corner = (column * PANEL_WIDTH, heading + row * PANEL_HEIGHT)
        curves = [run.curves.get(metric.name) for run in runs.values()]
        lines = [
            list(zip(curve.along(axis), curve.values, strict=True)) if curve else []
            for curve in curves
        ]
        draw_panel(draw, corner, metric, axis, lines)
    return image.quantize(64)


def draw_panel(
    draw: ImageDraw.ImageDraw,
    corner: tuple[int, int],
    metric: Figure,
    axis: str,
    lines: Sequence[Points],
    levels: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Each line in a colour of its own, and across the panel dashed levels with their names."""
    left, top = corner[0] + _LEFT, corner[1] + _TOP
    right, bottom = corner[0] + PANEL_WIDTH - _RIGHT, corner[1] + PANEL_HEIGHT - _BOTTOM
    x_ticks = _ticks([0.0, *(x for line in lines for x, _ in line)])
    y_ticks = _ticks([*(y for line in lines for _, y in line), *levels.values()])

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        up = (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])
        return left + across * (right - left), bottom - up * (bottom - top)

    title = f"{metric.title} ({better_sign(metric)})"
    draw.text((left, corner[1] + 22), title, INK, font(15), anchor="lm")
    for tick in y_ticks:
        y = place(x_ticks[0], tick)[1]
        draw.line([(left, y), (right, y)], GRID)
        draw.text((left - 8, y), f"{tick:,.6g}", SOFT_INK, font(12), anchor="rm")
    for tick in x_ticks:
        x = place(tick, y_ticks[0])[0]
        draw.line([(x, bottom), (x, bottom + 4)], INK)
        draw.text((x, bottom + 8), f"{tick:,.6g}", SOFT_INK, font(12), anchor="ma")
    draw.line([(left, bottom), (right, bottom)], INK)
    draw.text((right, bottom + 26), axis, SOFT_INK, font(12), anchor="ra")
    for number, (name, level) in enumerate(levels.items()):
        y = place(x_ticks[0], level)[1]
        for x in range(left, right, 2 * _DASH_PIXELS):
            draw.line([(x, y), (x + _DASH_PIXELS, y)], SOFT_INK)
        # Levels may be close: their names stand at the two ends by turns.
        end, anchor = ((right, "rd"), (left + 4, "ld"))[number % 2]
        draw.text((end, y - 2), name, SOFT_INK, font(12), anchor=anchor)
    for number, line in enumerate(lines):
        colour = _COLOURS[number % len(_COLOURS)]
        points = [place(x, y) for x, y in line]
        if len(points) > 1:
            draw.line(points, colour, width=2, joint="curve")
        # A figure that was measured a few times is seen only by its points.
        if len(points) <= 30:
            for x, y in points:
                draw.ellipse(
                    [
                        (x - _POINT_PIXELS, y - _POINT_PIXELS),
                        (x + _POINT_PIXELS, y + _POINT_PIXELS),
                    ],
                    colour,
                )


def _ticks(values: Sequence[float]) -> list[float]:
    """Round numbers around the values, at least two of them."""
    lowest, highest = min(values), max(values)
    spread = highest - lowest or abs(highest) or 1.0
    step = round_step(spread / _TICKS)
    first = math.floor(lowest / step)
    last = max(math.ceil(highest / step), first + 1)
    return [number * step for number in range(first, last + 1)]
