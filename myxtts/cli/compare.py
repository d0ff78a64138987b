"""`myxtts compare`: puts several runs into one table and plots their curves."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from myxtts.cli.console import say, say_json
from myxtts.cli.parser import CommandParser, add_json, flag_group
from myxtts.devices.startup import load_tensorflow
from myxtts.evaluation.history import AXES, LOSSES, METRICS, RunHistory, read_history
from myxtts.evaluation.measures import Metric
from myxtts.runs.run_dir import BASE_EVALUATION, RunDir, is_included, run_or_base


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: CommandParser = commands.add_parser(
        "compare",
        help="compare several runs in one table and plot their curves",
        description="Compare the losses and metrics of several runs: a table of the latest values "
        "and curves over steps, hours and utterances.",
    )
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="run folders; base is the included model"
    )
    flag_group(parser, "output").add_argument(
        "--out",
        type=Path,
        default=Path("comparison"),
        metavar="DIR",
        help="folder for the plots",
    )
    add_json(parser)
    parser.why_no_language = "metrics are compared, whatever the language"
    return parser


def run(options: argparse.Namespace) -> int:
    folders = [run_or_base(run) for run in options.runs]
    for folder in folders:
        if not is_included(folder):
            RunDir(folder).lines_of_training()
    load_tensorflow()
    from myxtts.charts import as_png
    from myxtts.evaluation.results import as_json, draw_curves, write_result

    runs = {
        str(run): read_history(folder) for run, folder in zip(options.runs, folders, strict=True)
    }
    options.out.mkdir(parents=True, exist_ok=True)
    pictures = {axis: options.out / f"curves_over_{axis}.png" for axis in AXES}
    for axis, file in pictures.items():
        write_result(file, as_png(draw_curves(runs, axis)))
    content = _content(runs, pictures)
    write_result(options.out / "comparison.json", as_json(content).encode())
    if options.json:
        say_json(content)
        return 0
    say("\n".join(_table(runs)))
    if not _losses_compare(runs):
        say("\nThe runs were trained on different corpora, so their losses cannot be compared.")
    if len({run.sentences for run in runs.values() if run.sentences}) > 1:
        say(
            "\nThe runs were evaluated on different sentences, so their metrics cannot be compared."
        )
    if any(map(is_included, folders)) and not BASE_EVALUATION.is_dir():
        say(
            "\nThe base model has no metrics here. Evaluate it on the clips of a run: myxtts "
            "evaluate base --data CORPUS"
        )
    say(f"\nCurves: {', '.join(str(file) for file in pictures.values())}")
    return 0


def _content(runs: dict[str, RunHistory], pictures: dict[str, Path]) -> dict[str, Any]:
    return {
        "runs": [
            {
                "run": name,
                "steps": run.steps,
                "hours": run.hours,
                "utterances": run.utterances,
                "useful_utilisation": run.report.get("useful_utilisation"),
                "recordings": run.ceiling,
                "intervals": run.intervals,
                "curves": {metric: vars(curve) for metric, curve in run.curves.items()},
            }
            for name, run in runs.items()
        ],
        "pictures": {axis: str(file) for axis, file in pictures.items()},
    }


def _table(runs: dict[str, RunHistory]) -> list[str]:
    """Return a row per metric with the latest value of each run; a star marks the best."""
    from myxtts.evaluation.results import interval

    width = max(18, *(len(name) + 3 for name in runs))
    ceiling = next((run.ceiling for run in runs.values() if run.ceiling), {})
    heads = [*runs, *(["recordings"] if ceiling else [])]
    rows = [("", "better", heads)]
    useful = [run.report.get("useful_utilisation") for run in runs.values()]
    rows += [
        ("steps", "", [f"{run.steps:,}" for run in runs.values()]),
        ("hours", "", [f"{run.hours:.2f}" if run.hours else "" for run in runs.values()]),
        ("utterances", "", [f"{run.utterances:,}" for run in runs.values()]),
        ("useful utilization", "", ["" if it is None else f"{it:.1%}" for it in useful]),
    ]
    for metric in METRICS:
        curves = [run.curves.get(metric.name) for run in runs.values()]
        last = [curve.values[-1] if curve else None for curve in curves]
        if any(value is not None for value in last):
            is_comparable = metric.name not in LOSSES or _losses_compare(runs)
            cells = [_cell(value, last if is_comparable else [], metric) for value in last]
            cells.append(_cell(ceiling.get(metric.name), [], metric))
            rows.append((metric.title, metric.better, cells))
            found = [run.intervals.get(metric.name) for run in runs.values()]
            if any(found):
                texts = (interval(*it[:2]) + f" n={it[2]}" if it else "" for it in found)
                rows.append(("  95 % interval, sentences", "", [*texts]))
    return [
        (f"{title:<32}{better:>12}" + "".join(f"{cell:>{width}}" for cell in cells)).rstrip()
        for title, better, cells in rows
    ]


def _losses_compare(runs: dict[str, RunHistory]) -> bool:
    """Return whether the losses were computed on the same clips."""
    return len({run.corpus for run in runs.values()}) == 1


def _cell(value: float | None, of_all: list[float | None], metric: Metric) -> str:
    if value is None:
        return ""
    known = [one for one in of_all if one is not None]
    best = {"lower": min, "higher": max}.get(metric.better)
    star = " *" if best and len(known) > 1 and value == best(known) else ""
    return f"{value:.{metric.decimals}f}{star}"
