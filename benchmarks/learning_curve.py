"""Learning curve of a run: every kept checkpoint, evaluated on held-out sentences.

    .venv/bin/pip install -e '.[eval,eval-torch]'
    .venv/bin/myxtts train --train-data CORPUS --run-dir RUN --set saving.keep_checkpoints=99
    .venv/bin/python benchmarks/learning_curve.py --run RUN --data CORPUS \\
        [--sentences 30] [--json FILE] [--picture FILE]

Recordings and their copies through mel and each vocoder are evaluated for comparison. Moonshine
supports English only; for other languages the spectral distance from the recordings is drawn
instead of the word error rate. Minutes are from the run's time report when it saved: in total, and
of the steps alone, without startup, compilation, evaluation and saving.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

from myxtts import TTS  # noqa: E402
from myxtts.charts import as_png, new_figure  # noqa: E402
from myxtts.errors import MyXTTSError  # noqa: E402
from myxtts.evaluation.evaluate import (  # noqa: E402  # noqa: E402
    MODEL,
    RECORDINGS,
    Sentence,
    copies_by,
    copying_vocoders,
    evaluate,
    held_out_sentences,
    with_corpus,
)
from myxtts.evaluation.measures import (  # noqa: E402  # noqa: E402
    DURATION_RATIO,
    MEL_CEPSTRAL_DISTANCE,
    PITCH_ERROR,
    VOICE_SIMILARITY,
    WORD_ERROR_RATE,
    Metric,
    Toolbox,
    open_toolbox,
)
from myxtts.evaluation.results import PANEL_HEIGHT, PANEL_WIDTH, draw_panel  # noqa: E402
from myxtts.runs.run_dir import RunDir, find_checkpoint  # noqa: E402
from myxtts.training.watching.accounting import stepping_seconds  # noqa: E402

SPEECH_METRICS = (
    WORD_ERROR_RATE,
    VOICE_SIMILARITY,
    MEL_CEPSTRAL_DISTANCE,
    PITCH_ERROR,
    DURATION_RATIO,
)
Row = dict[str, Any]


def means(
    tts: TTS, run: Path, sentences: Sequence[Sentence], toolbox: Toolbox, columns: Sequence[str]
) -> dict[str, dict[str, float]]:
    evaluation = evaluate(tts, str(run), sentences, toolbox, columns=columns)
    found = {
        column: {metric.name: evaluation.mean(column, metric) for metric in toolbox.metrics}
        for column in columns
    }
    return {
        column: {name: value for name, value in values.items() if value is not None}
        for column, values in found.items()
    }


def minutes(folder: Path) -> Row:
    """The run's time report when it saved this checkpoint."""
    info = find_checkpoint(folder, for_synthesis=True).info
    return {
        "step": info.step,
        "minutes": info.seconds["wall"] / 60,
        "minutes_of_steps": stepping_seconds(info.seconds) / 60,
    }


def picture(result: Row) -> bytes:
    """Plot errors and similarity over minutes; dashed lines are recordings and copies."""
    measured = [
        metric for metric in (WORD_ERROR_RATE, MEL_CEPSTRAL_DISTANCE) if rows_with(metric, result)
    ]
    metrics = [*measured[:1], *([VOICE_SIMILARITY] if rows_with(VOICE_SIMILARITY, result) else [])]
    figure = new_figure(max(1, len(metrics)) * PANEL_WIDTH, PANEL_HEIGHT)
    for number, metric in enumerate(metrics, 1):
        rows = rows_with(metric, result)
        line = [row["minutes"] for row in rows], [row[metric.name] for row in rows]
        levels = {
            column: values[metric.name]
            for column, values in result["ceilings"].items()
            if metric.name in values
        }
        panel = figure.add_subplot(1, len(metrics), number)
        draw_panel(panel, metric, "minutes", [line], levels)
    return as_png(figure)


def rows_with(metric: Metric, result: Row) -> list[Row]:
    return [row for row in result["checkpoints"] if metric.name in row]


def print_row(title: str, row: Row, metrics: Sequence[Metric]) -> None:
    times = [f"{row[name]:.1f}" if name in row else "" for name in ("minutes", "minutes_of_steps")]
    values = [
        f"{row[metric.name]:.{metric.decimals}f}" if metric.name in row else ""
        for metric in metrics
    ]
    widths = [10, 14, *(len(metric.title) + 2 for metric in metrics)]
    cells = zip([*times, *values], widths, strict=True)
    print(f"{title:<20}" + "".join(f"{cell:>{width}}" for cell, width in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=30)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    tts = TTS(options.run)
    config = with_corpus(tts.config, options.data)
    sentences = held_out_sentences(config, tts.languages, options.sentences)
    toolbox = open_toolbox(only=[metric.name for metric in SPEECH_METRICS])
    columns = (RECORDINGS, *map(copies_by, copying_vocoders(tts)))
    ceilings = means(tts, options.run, sentences, toolbox, columns)
    metrics = [metric for metric in toolbox.metrics if metric.name in ceilings[RECORDINGS]]
    for left_out in toolbox.left_out:
        print(left_out)
    languages = sorted({sentence.language for sentence in sentences})
    print(f"{len(sentences)} held-out sentences, languages: {', '.join(languages)}")
    titles = "".join(f"{metric.title:>{len(metric.title) + 2}}" for metric in metrics)
    print(f"{'step':<20}{'minutes':>10}{'of steps':>14}{titles}")
    for column, values in ceilings.items():
        print_row(column, values, metrics)
    result: Row = {
        "run": str(options.run),
        "sentences": len(sentences),
        "languages": languages,
        "ceilings": ceilings,
        "checkpoints": [],
    }
    for folder in RunDir(options.run).checkpoint_folders():
        measured = means(TTS(folder), folder, sentences, toolbox, (MODEL,))[MODEL]
        row = minutes(folder) | measured
        result["checkpoints"].append(row)
        print_row(f"{row['step']:,}", row, metrics)
        # Saved after each checkpoint, in case the benchmark is interrupted.
        if options.json:
            options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
        if options.picture:
            options.picture.write_bytes(picture(result))


if __name__ == "__main__":
    try:
        main()
    except MyXTTSError as error:
        raise SystemExit(f"error: {error}") from None
