"""`collect.html`, `collect.json` and the lines that the command prints."""

from __future__ import annotations

import base64
import html
import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from myxtts.charts import BLUE, as_png, new_figure, style
from myxtts.collect.collect import Clip, Outcome, count_reasons
from myxtts.collect.corpus import KEPT, REVIEW, CorpusFolder, Row, readable, write_rows
from myxtts.collect.quality import Figures, flags
from myxtts.errors import DataError, plural_count
from myxtts.files import write_file

_MOST_ROWS = 300
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #212529; max-width: 1180px;
       margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #e2e5e9; text-align: left;
         vertical-align: top }
td.n, th.n { text-align: right }
.soft { color: #5c636a }
audio { height: 2rem; width: 16rem }
"""


def page(outcome: Outcome) -> str:
    title = f"Collected: {readable(outcome.folder.name)}"
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{html.escape(title)}</h1>",
        _totals(outcome),
        *(f"<p class=soft>{html.escape(note)}</p>" for note in outcome.notes),
        _reasons("Put aside for review", _review_counts(outcome)),
        _reasons("Dropped", outcome.dropped()),
        _problems(outcome.problems),
        _figures(outcome.of(KEPT)),
        _recordings(outcome),
        _clips("Clips to review", outcome.of(REVIEW)),
        _clips("Clips to train on", outcome.of(KEPT)),
        "</html>",
    ]
    return "\n".join(part for part in parts if part)


def _totals(outcome: Outcome) -> str:
    rows = [
        ("recordings", len(outcome.sources), outcome.source_seconds),
        ("speech found", "", outcome.speech_seconds),
        ("clips to train on", len(outcome.of(KEPT)), outcome.seconds(KEPT)),
        ("clips to review", len(outcome.of(REVIEW)), outcome.seconds(REVIEW)),
    ]
    body = "".join(
        f"<tr><td>{name}<td class=n>{count}<td class=n>{seconds / 60:,.1f}"
        for name, count, seconds in rows
    )
    by = f"Transcripts by {outcome.transcriber}." if outcome.transcriber else "No transcripts."
    head = "<tr><th><th class=n>number<th class=n>minutes"
    return f"<table>{head}{body}</table><p>{html.escape(by)}</p>"


def _review_counts(outcome: Outcome) -> dict[str, tuple[int, float]]:
    clips = outcome.of(REVIEW)
    return {
        reason: (count, sum(clip.seconds for clip in clips if clip.reason == reason))
        for reason, count in count_reasons(clips, REVIEW).most_common()
    }


def _reasons(title: str, reasons: dict[str, tuple[int, float]]) -> str:
    if not reasons:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(reason)}<td class=n>{count}<td class=n>{seconds:,.0f}"
        for reason, (count, seconds) in reasons.items()
    )
    head = "<tr><th>reason<th class=n>pieces<th class=n>seconds"
    return f"<h2>{title}</h2><table>{head}{rows}</table>"


def _problems(problems: Sequence[str]) -> str:
    if not problems:
        return ""
    lines = "".join(f"<li>{html.escape(problem)}" for problem in problems[:_MOST_ROWS])
    return f"<h2>Recordings that could not be read</h2><ul>{lines}</ul>{_more(len(problems))}"


def _figures(clips: Sequence[Clip]) -> str:
    """Medians and extremes of the kept clips, and how many are flagged."""
    if not clips:
        return ""
    columns: list[tuple[str, Callable[[Clip], float], str]] = [
        ("length", lambda clip: clip.seconds, "{:.1f} s"),
        ("SNR", lambda clip: clip.figures["snr_db"], "{:.0f} dB"),
        ("level", lambda clip: clip.figures["level_dbfs"], "{:.0f} dBFS"),
        ("clipped samples", lambda clip: clip.figures["clipped_share"], "{:.2%}"),
        ("modulation", lambda clip: clip.figures["modulation_db"], "{:.1f} dB"),
    ]
    rows = []
    for name, value, shape in columns:
        values = [value(clip) for clip in clips]
        shown = (min(values), statistics.median(values), max(values))
        rows.append(f"<tr><td>{name}" + "".join(f"<td class=n>{shape.format(v)}" for v in shown))
    flagged: dict[str, int] = {}
    for clip in clips:
        for flag, _ in flags(Figures(**clip.figures)):
            flagged[flag] = flagged.get(flag, 0) + 1
    notes = "".join(
        f"<li>{plural_count(count, 'clip')}: {html.escape(flag)}" for flag, count in flagged.items()
    )
    picture = base64.b64encode(_lengths_picture([clip.seconds for clip in clips])).decode()
    head = "<tr><th><th class=n>lowest<th class=n>median<th class=n>highest"
    return (
        f"<h2>Figures of the clips to train on</h2><table>{head}{''.join(rows)}</table>"
        f"<ul>{notes}</ul>"
        f'<img alt="lengths of clips" src="data:image/png;base64,{picture}">'
    )


def _lengths_picture(seconds: Sequence[float]) -> bytes:
    figure = new_figure(640, 240)
    panel = figure.subplots()
    panel.hist(seconds, bins=np.arange(0, max(seconds) + 1).tolist(), color=BLUE, rwidth=0.9)
    style(panel, "clips")
    panel.set_xlabel("seconds")
    return as_png(figure)


def _recordings(outcome: Outcome) -> str:
    kept: dict[str, float] = {}
    for clip in outcome.of(KEPT):
        kept[clip.source] = kept.get(clip.source, 0.0) + clip.seconds
    rows = "".join(
        f"<tr><td>{html.escape(Path(source['path']).name)}<td class=n>{source['seconds'] / 60:,.1f}"
        f"<td class=n>{source['speech_seconds'] / 60:,.1f}"
        f"<td class=n>{kept.get(source['path'], 0.0) / 60:,.1f}"
        f"<td class=n>{_reverberation(source['reverberation_seconds'])}"
        for source in outcome.sources[:_MOST_ROWS]
    )
    head = "<tr><th>recording<th class=n>minutes<th class=n>speech<th class=n>kept"
    head += "<th class=n>reverberation"
    return f"<h2>Recordings</h2><table>{head}{rows}</table>{_more(len(outcome.sources))}"


def _reverberation(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f} s"


def _clips(title: str, clips: Sequence[Clip]) -> str:
    if not clips:
        return ""
    rows = "".join(_clip_row(clip) for clip in clips[:_MOST_ROWS])
    head = "<tr><th>clip<th><th>text<th>reason"
    return f"<h2>{title}</h2><table>{head}{rows}</table>{_more(len(clips))}"


def _clip_row(clip: Clip) -> str:
    notes: Iterable[str] = [": ".join(filter(None, (clip.reason, clip.detail)))]
    if clip.status == KEPT:
        notes = (f"{flag} ({figure})" for flag, figure in flags(Figures(**clip.figures)))
    place = f"{Path(clip.source).name} at {duration_of(clip.start_seconds)}"
    return (
        f"<tr><td>{html.escape(clip.id)}<br><span class=soft>{html.escape(place)}</span>"
        f'<td><audio controls preload=none src="wavs/{quote(clip.id)}.wav"></audio>'
        f"<td dir=auto>{html.escape(clip.text)}<td>{html.escape('; '.join(notes))}"
    )


def duration_of(seconds: float) -> str:
    """1:02:03, a place in a recording."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


def _more(count: int) -> str:
    return f"<p class=soft>and {count - _MOST_ROWS:,} more</p>" if count > _MOST_ROWS else ""


def summary(outcome: Outcome) -> list[str]:
    """The lines that the command prints."""
    lines = [
        f"{plural_count(len(outcome.sources), 'recording')}"
        + (f" ({outcome.unread:,} could not be read), " if outcome.unread else ", ")
        + f"{outcome.source_seconds / 60:.1f} minutes, "
        f"{outcome.speech_seconds / 60:.1f} minutes of speech",
        f"To train on: {plural_count(len(outcome.of(KEPT)), 'clip')}, "
        f"{outcome.seconds(KEPT) / 60:.1f} minutes",
    ]
    for name, reasons in (
        ("To review", _review_counts(outcome)),
        ("Dropped", outcome.dropped()),
    ):
        for reason, (count, seconds) in reasons.items():
            lines.append(f"{name}: {count:,}, {seconds / 60:.1f} minutes: {reason}")
    return lines


def write_corpus(outcome: Outcome, page: str) -> None:
    """The files of the corpus, each whole or not at all; `metadata.csv` last."""
    folder = CorpusFolder(outcome.folder)
    try:
        write_file(folder.report, json.dumps(as_json(outcome), indent=1) + "\n")
        write_file(folder.page, page)
    except OSError as error:
        raise DataError(f"{outcome.folder}: cannot be written ({error.strerror})") from None
    write_rows(folder, *([_row(clip) for clip in outcome.of(status)] for status in (KEPT, REVIEW)))


def _row(clip: Clip) -> Row:
    reason = ": ".join(filter(None, (clip.reason, clip.detail)))
    return Row(clip.id, clip.text, clip.speaker, clip.language, reason)


def as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "folder": str(outcome.folder),
        "recordings": len(outcome.sources),
        "other_files": outcome.other_files,
        "seconds": round(outcome.source_seconds, 1),
        "speech_seconds": round(outcome.speech_seconds, 1),
        "transcriber": outcome.transcriber,
        "kept": {"clips": len(outcome.of(KEPT)), "seconds": round(outcome.seconds(KEPT), 1)},
        "review": {
            "clips": len(outcome.of(REVIEW)),
            "seconds": round(outcome.seconds(REVIEW), 1),
            "reasons": dict(count_reasons(outcome.clips, REVIEW)),
        },
        "dropped": {
            reason: {"pieces": pieces, "seconds": round(seconds, 1)}
            for reason, (pieces, seconds) in outcome.dropped().items()
        },
        "problems": outcome.problems,
        "notes": outcome.notes,
    }
