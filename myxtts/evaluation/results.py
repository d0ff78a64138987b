"""Writes the results of an evaluation: JSON, CSV, plots and a page."""

from __future__ import annotations

import base64
import csv
import html
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from myxtts.audio.mel import clip_log_mel
from myxtts.charts import (
    BLUE,
    GRAY,
    HEAT,
    LIGHT_BLUE,
    ORANGE,
    as_png,
    heat_map_png,
    new_figure,
    plain,
    style,
)
from myxtts.config.config import AudioConfig
from myxtts.errors import DataError
from myxtts.evaluation.evaluate import MODEL, RECORDINGS, Clip, Evaluation
from myxtts.evaluation.history import METRICS, RunHistory
from myxtts.evaluation.measures import Metric, Sound
from myxtts.files import write_file
from myxtts.runs.run_dir import EVALUATION_RESULT


def save_evaluation(evaluation: Evaluation, folder: Path) -> dict[str, Any]:
    """Writes everything into the folder and returns the content of evaluation.json."""
    content = as_dict(evaluation)
    folder.mkdir(parents=True, exist_ok=True)
    write_result(folder / EVALUATION_RESULT, as_json(content).encode())
    write_result(folder / "evaluation.csv", _as_csv(evaluation).encode("utf-8-sig"))
    bars = as_png(bars_picture(evaluation))
    write_result(folder / "bars.png", bars)
    write_result(folder / "mels.png", as_png(mel_sheet(evaluation)))
    write_result(folder / "index.html", page(evaluation, bars).encode())
    return content


def as_json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, indent=1)


def write_result(file: Path, content: bytes) -> None:
    try:
        write_file(file, content)
    except OSError as error:
        raise DataError(f"{file}: cannot be written ({error.strerror or error})") from None


def as_dict(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "run": evaluation.run,
        "step": evaluation.step,
        "columns": list(evaluation.columns),
        "measures": {
            metric.name: _facts(evaluation, metric.name) for metric in evaluation.toolbox.metrics
        },
        "left_out": [
            {"measures": list(left_out.titles), "reason": left_out.reason}
            for left_out in evaluation.left_out
        ],
        "sentences": [_sentence(evaluation, place) for place in range(len(evaluation.sentences))],
    }


def _facts(evaluation: Evaluation, name: str) -> dict[str, Any]:
    measure = next(
        one
        for one in evaluation.toolbox.measures
        if any(metric.name == name for metric in one.metrics)
    )
    metric = next(metric for metric in measure.metrics if metric.name == name)
    return {
        "title": metric.title,
        "unit": metric.unit,
        "better": metric.better,
        "made_with": measure.tool.name,
        "licence": measure.tool.licence,
        "extra": measure.tool.extra,
        "languages": measure.tool.languages and list(measure.tool.languages),
        "independent": measure.tool.independent,
        "means": {column: evaluation.mean(column, metric) for column in evaluation.columns},
    }


def _sentence(evaluation: Evaluation, place: int) -> dict[str, Any]:
    sentence = evaluation.sentences[place]
    clips = [clip for clip in evaluation.clips if clip.sentence is sentence]
    return {
        "text": sentence.text,
        "language": sentence.language,
        "speaker": sentence.speaker,
        "reference": str(sentence.reference),
        "recording": sentence.recording and str(sentence.recording),
        "clips": {clip.column: _clip(clip) for clip in clips},
    }


def _clip(clip: Clip) -> dict[str, Any]:
    values: dict[str, Any] = {name: score.value for name, score in clip.scores.items()}
    notes = {f"{name}_heard": score.note for name, score in clip.scores.items() if score.note}
    return {"seconds": clip.sound.seconds, **values, **notes}


def _as_csv(evaluation: Evaluation) -> str:
    """One row per clip."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    names = [metric.name for metric in evaluation.toolbox.metrics]
    writer.writerow(["column", "speaker", "language", "text", "heard", "seconds", *names])
    for clip in evaluation.clips:
        sentence = clip.sentence
        heard = "".join(score.note for score in clip.scores.values())
        values = [clip.scores[name].value if name in clip.scores else "" for name in names]
        row = [clip.column, sentence.speaker, sentence.language, sentence.text, heard]
        writer.writerow([*row, f"{clip.sound.seconds:.3f}", *values])
    return buffer.getvalue()


# From 0 (largest file) to 1: speech stays clear, and a sentence takes about ten kilobytes.
_COMPRESSION = 0.8

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #212529; max-width: 1180px;
       margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #e2e5e9; text-align: right }
th:first-child, td:first-child { text-align: left }
.soft { color: #5c636a }
.clips { display: grid; grid-template-columns: repeat(auto-fit, minmax(280px, 1fr)); gap: 1rem }
.clips img { width: 100%; height: 120px; image-rendering: auto }
.clips audio { width: 100% }
img.bars { max-width: 100% }
"""


def page(evaluation: Evaluation, bars_png: bytes) -> str:
    title = f"{evaluation.run}, step {evaluation.step:,}"
    left_out = "".join(f"<p class=soft>{html.escape(str(one))}</p>" for one in evaluation.left_out)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{html.escape(title)}</h1>",
        f"<p>{len(evaluation.sentences)} sentences that the run was not trained on. Compare each "
        "metric with the recordings and with their copies (resynthesized from their mels by a "
        "vocoder).</p>",
        _table(evaluation),
        left_out,
        f'<img class=bars alt="all metrics" src="{_inline("image/png", bars_png)}">',
        *(_sentence_section(evaluation, place) for place in range(len(evaluation.sentences))),
        "</html>",
    ]
    return "\n".join(parts)


def _table(evaluation: Evaluation) -> str:
    heads = "".join(f"<th>{column}" for column in evaluation.columns)
    rows = "".join(
        f"<tr><td>{metric.title} <span class=soft>{better_sign(metric)}</span>"
        + "".join(f"<td>{_value(evaluation, column, metric)}" for column in evaluation.columns)
        for metric in evaluation.toolbox.metrics
    )
    return f"<table><tr><th>{heads}{rows}</table>"


def _value(evaluation: Evaluation, column: str, metric: Metric) -> str:
    mean = evaluation.mean(column, metric)
    return "" if mean is None else f"{mean:.{metric.decimals}f}"


def _sentence_section(evaluation: Evaluation, place: int) -> str:
    sentence = evaluation.sentences[place]
    clips = [clip for clip in evaluation.clips if clip.sentence is sentence]
    return (
        f"<h3 dir=auto>{html.escape(sentence.text)}</h3><div class=clips>"
        + "".join(_clip_cell(clip) for clip in clips)
        + "</div>"
    )


def _clip_cell(clip: Clip) -> str:
    transcript = "".join(score.note for score in clip.scores.values())
    note = (
        f"<div class=soft dir=auto>transcript: {html.escape(transcript)}</div>"
        if transcript
        else ""
    )
    mel = _inline("image/png", heat_map_png(mel_shades(clip.sound)))
    return (
        f"<div><b>{clip.column}</b> <span class=soft>{html.escape(clip.sentence.speaker)}</span>"
        f'<img alt="mel spectrogram" src="{mel}">'
        f'<audio controls preload=none src="{_inline("audio/mpeg", _mp3(clip.sound))}"></audio>'
        f"{note}</div>"
    )


def _mp3(sound: Sound) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(
        buffer,
        sound.waveform.clip(-1, 1),
        sound.sample_rate_hz,
        format="MP3",
        compression_level=_COMPRESSION,
    )
    return buffer.getvalue()


def _inline(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


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
