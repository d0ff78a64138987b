"""The HTML page to listen to: one file with the table, the pictures and every clip."""

from __future__ import annotations

import base64
import html
import io

import soundfile

from myxtts.charts import heat_map_png
from myxtts.evaluation.evaluate import Clip, Evaluation
from myxtts.evaluation.measure import Metric, Sound
from myxtts.evaluation.pictures import better_sign, mel_shades

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
        *(_sentence(evaluation, place) for place in range(len(evaluation.sentences))),
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


def _sentence(evaluation: Evaluation, place: int) -> str:
    sentence = evaluation.sentences[place]
    clips = [clip for clip in evaluation.clips if clip.sentence is sentence]
    return (
        f"<h3 dir=auto>{html.escape(sentence.text)}</h3><div class=clips>"
        + "".join(_clip(clip) for clip in clips)
        + "</div>"
    )


def _clip(clip: Clip) -> str:
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
