"""Plots of an evaluation: mel spectrograms, and bars that compare the columns."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

from myxtts.audio.mel import clip_log_mel
from myxtts.config.config import AudioConfig
from myxtts.drawing import (
    BAR_ROW_PIXELS,
    BLUE,
    LIGHT_BLUE,
    ORANGE,
    BarRow,
    Canvas,
    bar_rows,
    grid_corner,
    heat_map,
)
from myxtts.evaluation.evaluate import MODEL, RECORDINGS, Evaluation
from myxtts.evaluation.measure import Metric, Sound

_COLUMN_COLOURS = {RECORDINGS: BLUE, MODEL: ORANGE}
_COLOUR_OF_COPIES = LIGHT_BLUE
_DYNAMIC_RANGE_NEPERS = 8.0
_MELS = 80

_SHEET_SENTENCES = 4
_SHEET_ROW_PIXELS, _SHEET_COLUMN_PIXELS, _SHEET_MARGIN = 150, 400, 24

_BAR_PANEL_COLUMNS, _BAR_PANEL_WIDTH, _BAR_PANEL_HEAD = 3, 400, 50
# Leaves room for the name before a bar and the value after it.
_LONGEST_BAR_PIXELS = _BAR_PANEL_WIDTH - 220


def mel_picture(sound: Sound) -> Image.Image:
    """One pixel per frame and band, low bands at the bottom."""
    audio = AudioConfig(
        sample_rate_hz=sound.sample_rate_hz, highest_hz=min(8_000.0, sound.sample_rate_hz / 2)
    )
    log_mel = clip_log_mel(audio, _MELS)(sound.waveform)  # [frames, mels]
    return heat_map((log_mel - log_mel.max()) / _DYNAMIC_RANGE_NEPERS + 1)


def mel_sheet(evaluation: Evaluation) -> Image.Image:
    """The mels of the first sentences: one row per sentence, one column per source."""
    columns = evaluation.columns
    sentences = evaluation.sentences[:_SHEET_SENTENCES]
    width, height = _SHEET_COLUMN_PIXELS + _SHEET_MARGIN, _SHEET_ROW_PIXELS + _SHEET_MARGIN
    canvas = Canvas(
        _SHEET_MARGIN + len(columns) * width, 2 * _SHEET_MARGIN + len(sentences) * height
    )
    longest_seconds = max(
        clip.sound.seconds for clip in evaluation.clips if clip.sentence in sentences
    )
    for place, column in enumerate(columns):
        canvas.text((_SHEET_MARGIN + place * width, _SHEET_MARGIN), column, 16)
    for clip in evaluation.clips:
        if clip.sentence not in sentences:
            continue
        row, place = sentences.index(clip.sentence), columns.index(clip.column)
        # All on one time scale, so that faster speech is narrower.
        pixels = max(1, round(_SHEET_COLUMN_PIXELS * clip.sound.seconds / longest_seconds))
        mel = mel_picture(clip.sound).convert("RGB").resize((pixels, _SHEET_ROW_PIXELS))
        canvas.paste(mel, _SHEET_MARGIN + place * width, 2 * _SHEET_MARGIN + row * height)
    # A palette is enough for one gradient, at a quarter of the size.
    return canvas.image.quantize(128)


def bars_picture(evaluation: Evaluation) -> Image.Image:
    """One panel per metric with one bar per column; empty panels are left out."""
    metrics = [
        metric
        for metric in evaluation.toolbox.metrics
        if any(evaluation.mean(column, metric) is not None for column in evaluation.columns)
    ]
    rows = -(-len(metrics) // _BAR_PANEL_COLUMNS)
    width = _BAR_PANEL_WIDTH
    height = _BAR_PANEL_HEAD + len(evaluation.columns) * BAR_ROW_PIXELS
    canvas = Canvas(_BAR_PANEL_COLUMNS * width, max(1, rows) * height + 16)
    for number, metric in enumerate(metrics):
        x, y = grid_corner(number, _BAR_PANEL_COLUMNS, width, height)
        canvas.text((x + 20, y + 24), f"{metric.title} ({better_sign(metric)})", 15)
        bars = [_bar(evaluation, column, metric) for column in evaluation.columns]
        bar_rows(canvas, (x + 20, y + 42), bars, _LONGEST_BAR_PIXELS)
    return canvas.image


def _bar(evaluation: Evaluation, column: str, metric: Metric) -> BarRow:
    value = evaluation.mean(column, metric)
    text = "" if value is None else f"{value:.{metric.decimals}f}"
    return BarRow(column, value, text, _COLUMN_COLOURS.get(column, _COLOUR_OF_COPIES))


def better_sign(metric: Metric) -> str:
    words: Sequence[str] = [part for part in (metric.unit, f"better: {metric.better}") if part]
    return ", ".join(words)
