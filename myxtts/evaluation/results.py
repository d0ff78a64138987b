"""Writes the results of an evaluation: JSON, CSV, plots and a page."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from myxtts.charts import as_png
from myxtts.errors import DataError
from myxtts.evaluation.evaluate import Clip, Evaluation
from myxtts.evaluation.page import page
from myxtts.evaluation.pictures import bars_picture, mel_sheet
from myxtts.runs.run_dir import EVALUATION_RESULT
from myxtts.whole_files import write_whole_file


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
        write_whole_file(file, content)
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
