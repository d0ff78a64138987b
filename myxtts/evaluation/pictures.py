"""Pictures of an evaluation: mel spectrograms, and a bar for each column of the table."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from myxtts.audio.mel import clip_log_mel
from myxtts.config.config import AudioConfig
from myxtts.evaluation.evaluate import Evaluation
from myxtts.evaluation.measure import Figure, Sound

WHITE, INK, SOFT_INK, GRID = (255, 255, 255), (33, 37, 41), (92, 99, 106), (226, 229, 233)
_COLUMN_COLOURS = {
    "recordings": (74, 122, 176),
    "copy-synthesis": (143, 176, 210),
    "model": (214, 126, 20),
}
# From silence to the loudest.
_GRADIENT = ((8, 9, 38), (72, 22, 105), (176, 50, 92), (242, 136, 44), (252, 246, 190))
_HEARD_RANGE_NEPERS = 8.0
_MELS = 80

_SHEET_SENTENCES = 4
_SHEET_ROW_PIXELS, _SHEET_COLUMN_PIXELS, _SHEET_MARGIN = 150, 400, 24

_BAR_PIXELS, _BAR_PANEL_COLUMNS, _BAR_PANEL_PIXELS = 18, 3, (380, 128)


def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def as_png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def mel_picture(sound: Sound) -> Image.Image:
    """One pixel per frame and band, low bands at the bottom, in a palette: a few kilobytes."""
    audio = AudioConfig(
        sample_rate_hz=sound.sample_rate_hz, highest_hz=min(8_000.0, sound.sample_rate_hz / 2)
    )
    log_mel = clip_log_mel(audio, _MELS)(sound.waveform)
    shade = np.clip((log_mel - log_mel.max()) / _HEARD_RANGE_NEPERS + 1, 0, 1)  # [frames, mels]
    picture = Image.fromarray((shade.T[::-1] * 63).astype(np.uint8), mode="P")
    picture.putpalette(_palette().tobytes())
    return picture


def _palette() -> npt.NDArray[np.uint8]:
    places = np.linspace(0, 1, len(_GRADIENT))
    channels = [np.interp(np.linspace(0, 1, 64), places, part) for part in np.array(_GRADIENT).T]
    return np.stack(channels, axis=1).round().astype(np.uint8)


def mel_sheet(evaluation: Evaluation) -> Image.Image:
    """The first sentences, a row each, as each column says them."""
    columns = evaluation.columns
    sentences = evaluation.sentences[:_SHEET_SENTENCES]
    width = _SHEET_MARGIN + len(columns) * (_SHEET_COLUMN_PIXELS + _SHEET_MARGIN)
    height = 2 * _SHEET_MARGIN + len(sentences) * (_SHEET_ROW_PIXELS + _SHEET_MARGIN)
    sheet = Image.new("RGB", (width, height), WHITE)
    draw = ImageDraw.Draw(sheet)
    longest_seconds = max(
        clip.sound.seconds for clip in evaluation.clips if clip.sentence in sentences
    )
    for place, column in enumerate(columns):
        x = _SHEET_MARGIN + place * (_SHEET_COLUMN_PIXELS + _SHEET_MARGIN)
        draw.text((x, _SHEET_MARGIN), column, INK, font(16), anchor="lm")
    for clip in evaluation.clips:
        if clip.sentence not in sentences:
            continue
        row, place = sentences.index(clip.sentence), columns.index(clip.column)
        x = _SHEET_MARGIN + place * (_SHEET_COLUMN_PIXELS + _SHEET_MARGIN)
        y = 2 * _SHEET_MARGIN + row * (_SHEET_ROW_PIXELS + _SHEET_MARGIN)
        # All on one scale of time: too fast is narrower.
        pixels = max(1, round(_SHEET_COLUMN_PIXELS * clip.sound.seconds / longest_seconds))
        mel = mel_picture(clip.sound).convert("RGB").resize((pixels, _SHEET_ROW_PIXELS))
        sheet.paste(mel, (x, y))
    # A palette is enough for one gradient, and a quarter of the size.
    return sheet.quantize(128)


def bars_picture(evaluation: Evaluation) -> Image.Image:
    """A panel for each figure with a bar for each column; empty panels are left out."""
    figures = [
        figure
        for figure in evaluation.toolbox.figures
        if any(evaluation.mean(column, figure) is not None for column in evaluation.columns)
    ]
    rows = -(-len(figures) // _BAR_PANEL_COLUMNS)
    width, height = _BAR_PANEL_PIXELS
    image = Image.new("RGB", (_BAR_PANEL_COLUMNS * width, max(1, rows) * height + 16), WHITE)
    draw = ImageDraw.Draw(image)
    for number, figure in enumerate(figures):
        row, column = divmod(number, _BAR_PANEL_COLUMNS)
        _draw_bars(draw, evaluation, figure, column * width + 20, row * height + 24)
    return image


def _draw_bars(
    draw: ImageDraw.ImageDraw, evaluation: Evaluation, figure: Figure, left: int, top: int
) -> None:
    draw.text((left, top), f"{figure.title} ({better_sign(figure)})", INK, font(15), anchor="lm")
    values = {column: evaluation.mean(column, figure) for column in evaluation.columns}
    largest = max((abs(value) for value in values.values() if value is not None), default=0) or 1.0
    room = _BAR_PANEL_PIXELS[0] - 200
    for place, (column, value) in enumerate(values.items()):
        y = top + 18 + place * (_BAR_PIXELS + 8)
        middle = y + _BAR_PIXELS / 2
        draw.text((left, middle), column, SOFT_INK, font(12), anchor="lm")
        if value is None:
            continue
        end = left + 100 + max(1, round(max(value, 0.0) / largest * room))
        draw.rectangle([(left + 100, y), (end, y + _BAR_PIXELS)], _COLUMN_COLOURS[column])
        text = f"{value:.{figure.decimals}f}"
        draw.text((end + 6, middle), text, INK, font(12), anchor="lm")


def better_sign(figure: Figure) -> str:
    words: Sequence[str] = [part for part in (figure.unit, f"better: {figure.better}") if part]
    return ", ".join(words)
