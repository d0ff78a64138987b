"""Writes the results of an evaluation as JSON, CSV and a page, and draws curves of runs."""

from __future__ import annotations

import base64
import csv
import html
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soundfile
from matplotlib.figure import Figure

from myxtts.audio.mel import clip_log_mel
from myxtts.charts import heat_map_png, new_figure, plain, style
from myxtts.config.config import AudioConfig
from myxtts.errors import DataError
from myxtts.evaluation.evaluate import Clip, Evaluation
from myxtts.evaluation.history import METRICS, RunHistory
from myxtts.evaluation.measures import Metric, Sound
from myxtts.files import write_file
from myxtts.runs.run_dir import EVALUATION_RESULT


def save_evaluation(evaluation: Evaluation, folder: Path) -> dict[str, Any]:
    """Write everything into the folder and return the content of evaluation.json."""
    content = as_dict(evaluation)
    folder.mkdir(parents=True, exist_ok=True)
    write_result(folder / EVALUATION_RESULT, as_json(content).encode())
    write_result(folder / "evaluation.csv", _as_csv(evaluation).encode("utf-8-sig"))
    write_result(folder / "index.html", page(evaluation).encode())
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
            metric.name: {
                "title": metric.title,
                "unit": metric.unit,
                "better": metric.better,
                "made_with": measure.tool.name,
                "license": measure.tool.license,
                "extra": measure.tool.extra,
                "languages": measure.tool.languages and list(measure.tool.languages),
                "independent": measure.tool.independent,
                **_means(evaluation, metric),
            }
            for measure in evaluation.toolbox.measures
            for metric in measure.metrics
            if metric in evaluation.toolbox.metrics
        },
        "left_out": [
            {"measures": list(left_out.titles), "reason": left_out.reason}
            for left_out in evaluation.left_out
        ],
        "sentences": [
            {
                "text": sentence.text,
                "language": sentence.language,
                "speaker": sentence.speaker,
                "reference": sentence.reference and str(sentence.reference),
                "recording": sentence.recording and str(sentence.recording),
                "clips": {clip.column: _clip(clip) for clip in evaluation.clips_of(sentence)},
            }
            for sentence in evaluation.sentences
        ],
    }


def _means(evaluation: Evaluation, metric: Metric) -> dict[str, Any]:
    found = {column: evaluation.mean(column, metric) for column in evaluation.columns}
    return {
        "means": {column: mean and mean.value for column, mean in found.items()},
        "intervals": {column: mean and [mean.low, mean.high] for column, mean in found.items()},
        "clips": {column: mean.clips if mean else 0 for column, mean in found.items()},
    }


def interval(low: float, high: float) -> str:
    return f"{low:.2f}–{high:.2f}"


def _clip(clip: Clip) -> dict[str, Any]:
    values: dict[str, Any] = {name: score.value for name, score in clip.scores.items()}
    notes = {f"{name}_heard": score.note for name, score in clip.scores.items() if score.note}
    return {"seconds": clip.sound.seconds, **values, **notes}


def _as_csv(evaluation: Evaluation) -> str:
    """Write one row per clip."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    names = [metric.name for metric in evaluation.toolbox.metrics]
    writer.writerow(["column", "speaker", "language", "text", "heard", "seconds", *names])
    for clip in evaluation.clips:
        sentence = clip.sentence
        values = [clip.scores[name].value if name in clip.scores else "" for name in names]
        row = [clip.column, sentence.speaker, sentence.language, sentence.text, clip.transcript]
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
"""


def page(evaluation: Evaluation) -> str:
    title = html.escape(f"{evaluation.run}, step {evaluation.step:,}")
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>{title}</title><style>{_STYLE}</style>",
        f"<h1>{title}</h1>",
        f"<p>{len(evaluation.sentences)} sentences that the run was not trained on. Compare each "
        "metric with the recordings and with their copy synthesis (mel and vocoder).</p>",
        "<table><tr><th>" + "".join(f"<th>{column}" for column in evaluation.columns),
    ]
    for metric in evaluation.toolbox.metrics:
        parts.append(f"<tr><td>{metric.title} <span class=soft>{better_sign(metric)}</span>")
        for column in evaluation.columns:
            mean = evaluation.mean(column, metric)
            parts.append("<td>" + (f"{mean.value:.{metric.decimals}f}" if mean else ""))
            if mean and metric.shows_interval:
                parts.append(
                    f"<br><span class=soft>{interval(mean.low, mean.high)}, n = {mean.clips}</span>"
                )
    parts.append("</table>")
    parts += (f"<p class=soft>{html.escape(str(one))}</p>" for one in evaluation.left_out)
    for sentence in evaluation.sentences:
        parts.append(f"<h3 dir=auto>{html.escape(sentence.text)}</h3><div class=clips>")
        parts += map(_clip_cell, evaluation.clips_of(sentence))
        parts.append("</div>")
    return "\n".join([*parts, "</html>"])


def _clip_cell(clip: Clip) -> str:
    note = ""
    if clip.transcript:
        note = f"<div class=soft dir=auto>transcript: {html.escape(clip.transcript)}</div>"
    mel = _inline("image/png", heat_map_png(_mel_shades(clip.sound)))
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


_DYNAMIC_RANGE_NEPERS = 8.0
_MELS = 80


def _mel_shades(sound: Sound) -> npt.NDArray[np.float32]:
    """Return the log-mel of a clip as [frames, mels] with 1 at the loudest."""
    audio = AudioConfig(
        sample_rate_hz=sound.sample_rate_hz, highest_hz=min(8_000.0, sound.sample_rate_hz / 2)
    )
    log_mel = clip_log_mel(audio, _MELS)(sound.waveform)
    shades: npt.NDArray[np.float32] = (log_mel - log_mel.max()) / _DYNAMIC_RANGE_NEPERS + 1
    return shades


_PANELS_IN_ROW = 3
_PANEL_WIDTH, _PANEL_HEIGHT = 480, 250
# Curves with more points are drawn without markers.
_MAX_MARKERS = 30


def draw_curves(runs: Mapping[str, RunHistory], axis: str) -> Figure:
    """Draw a panel per metric with a line per run over steps, hours or utterances."""
    metrics = [
        metric for metric in METRICS if any(metric.name in run.curves for run in runs.values())
    ]
    rows = -(-len(metrics) // _PANELS_IN_ROW)
    figure = new_figure(_PANELS_IN_ROW * _PANEL_WIDTH, max(1, rows) * _PANEL_HEIGHT + 40)
    for place, metric in enumerate(metrics, start=1):
        panel = figure.add_subplot(rows, _PANELS_IN_ROW, place)
        style(panel, f"{metric.title} ({better_sign(metric)})")
        panel.set_xlabel(axis)
        for run in runs.values():
            curve = run.curves.get(metric.name)
            along, values = (curve.along(axis), curve.values) if curve else ((), ())
            panel.plot(along, values, marker="o" if len(values) <= _MAX_MARKERS else "")
    lines = figure.axes[0].lines
    figure.legend(lines, map(plain, runs), loc="outside upper left")
    return figure


def better_sign(metric: Metric) -> str:
    return ", ".join(part for part in (metric.unit, f"better: {metric.better}") if part)
