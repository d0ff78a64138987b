"""PNG and SVG charts with matplotlib figures, without pyplot and its global state."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.image import imsave

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, LIGHT_BLUE, ORANGE, RED, GRAY = "#4a7ab0", "#8fb0d2", "#d67e14", "#be2c2c", "#5c636a"
HEAT = colormaps["magma"].resampled(64)  # few colors keep a PNG small

_DOTS_PER_INCH = 100


def new_figure(width_pixels: int, height_pixels: int) -> Figure:
    size = width_pixels / _DOTS_PER_INCH, height_pixels / _DOTS_PER_INCH
    return Figure(figsize=size, dpi=_DOTS_PER_INCH, layout="constrained")


def style(axes: Axes, title: str) -> None:
    """Set the title and reduce the frame to two axes and a light grid."""
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e2e5e9")
    axes.set_axisbelow(True)


def plain(name: str) -> str:
    """Escape the dollar sign, which begins a formula."""
    return name.replace("$", r"\$")


def as_png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The font covers only Latin, Greek, Cyrillic and Arabic.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(buffer, format="png")
    return buffer.getvalue()


def as_svg(figure: Figure) -> str:
    """Return an element to put into HTML."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def heat_map_png(values: npt.NDArray[np.floating]) -> bytes:
    """Draw `values` [columns, rows] from 0 to 1, one pixel each, the first row at the bottom."""
    buffer = io.BytesIO()
    imsave(buffer, values.T, vmin=0, vmax=1, cmap=HEAT, origin="lower", format="png")
    return buffer.getvalue()
