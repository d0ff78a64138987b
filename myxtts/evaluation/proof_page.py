"""The page of a proof: claims, charts and versions in one file, to attach to an issue."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping
from typing import Any

from myxtts.charts import BLUE, LIGHT_BLUE, ORANGE, as_svg, new_figure, style

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem;
  border-bottom: 1px solid #dde1e6 }
td:first-child { white-space: nowrap; font-weight: 600 }
.pass { color: #1a7f37 } .fail { color: #be2c2c } .not { color: #5c636a }
svg { max-width: 100%; height: auto }
"""
_COLORS = (BLUE, ORANGE, LIGHT_BLUE)


def proof_page(proof: Mapping[str, Any]) -> str:
    """Render `proof`, the content of proof.json, as HTML."""
    counts = Counter(claim["result"] for claim in proof["claims"])
    summary = ", ".join(f"{count} {result}" for result, count in sorted(counts.items()))
    claims = "".join(
        f'<tr><td class="{claim["result"].split()[0]}">{claim["result"]}</td>'
        + "".join(f"<td>{html.escape(claim[key])}</td>" for key in _COLUMNS[1:])
        + "</tr>\n"
        for claim in proof["claims"]
    )
    facts = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>\n"
        for name, value in proof["machine"].items()
    )
    charts = "".join(_chart(title, values) for title, values in proof["charts"].items())
    header = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>MyXTTS proof: {html.escape(proof['devices'])}</title><style>{_STYLE}</style>"
        f"</head><body>\n<h1>MyXTTS on {html.escape(proof['devices'])}</h1>\n<p>{summary}. "
        f"{html.escape(proof['date'])}, {proof['minutes']:.0f} minutes"
        f"{', quick' if proof['quick'] else ''}.</p>\n<table>{facts}</table>\n"
        f"<table><tr>{header}</tr>\n{claims}</table>\n{charts}</body></html>\n"
    )


_COLUMNS = ("result", "devices", "subject", "expected", "found")


def _chart(title: str, series: Mapping[str, Any]) -> str:
    """Draw lists as curves over steps, and objects as groups of bars."""
    figure = new_figure(900, 260)
    panel = figure.subplots()
    width = 0.8 / len(series)
    for index, ((name, values), color) in enumerate(zip(series.items(), _COLORS, strict=False)):
        if isinstance(values, list):
            panel.plot(range(1, len(values) + 1), values, ".-", color=color, label=name)
            panel.set_yscale("log")
            continue
        heights = [value or 0.0 for value in values.values()]
        places = [place + width * index for place in range(len(values))]
        bars = panel.bar(places, heights, width, color=color, label=name)
        labels = ["unknown" if value is None else f"{value:.3g}" for value in values.values()]
        panel.bar_label(bars, labels)
        middles = [place + width * (len(series) - 1) / 2 for place in range(len(values))]
        panel.set_xticks(middles, list(values))
        panel.margins(y=0.2)
    style(panel, title)
    panel.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return as_svg(figure)
