"""Cost of recompilation, and how static shapes avoid it.

    .venv/bin/python benchmarks/retracing.py [--lengths like-ljspeech] [--steps 200] \
        [--variable-steps 200] [--times FILE.png] [--json FILE]

Trains the tiny model with `myxtts train` and an empty compilation cache: with XLA and one fixed
shape, four shapes or variable shapes, and without XLA and sixteen shapes. Lengths are drawn like
those of LJSpeech's 13,100 clips, where batches hardly ever share a shape, or are those of the demo
corpus, whose few short clips often do.

200 steps of variable shapes take more than an hour. --variable-steps runs fewer and extrapolates to
--steps steps; steps whose shape occurred before count as taking no time, which favors variable
shapes. If XLA compiles so many programs that the process cannot map more memory, the run is resumed
and counted. Static shapes are launched a second time with the cached programs of the first launch.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from drawn_corpus import write_corpus
from harness import Table, arguments, report

from myxtts.charts import BLUE, ORANGE, RED, as_png, new_figure, style
from myxtts.config.config import XTTSConfig
from myxtts.data.corpus import open_corpus

# Name, settings, color in the plot.
WAYS = (
    ("fixed, XLA", ["--xla", "--enable-static-shapes"], ORANGE),
    ("bucketed 4, XLA", ["--xla", "--set=data.shape_count=4"], BLUE),
    ("bucketed 16", ["--no-xla", "--set=data.shape_count=16"], "#3c8c50"),
    ("variable, XLA", ["--xla", "--set=data.batching=dynamic"], RED),
)


# Steps between checkpoints: at most this many are repeated after a crash.
SAVE_EVERY = 20
MAX_LAUNCHES = 20
LJSPEECH_CLIPS = 13_100
LENGTHS = ("like-ljspeech", "demo")
# No evaluation in any launch: it would be measured along with the steps.
FIGURES = (
    ("steps per second", "Training", "steps per second", "higher"),
    ("p50", "Median step", "seconds", "lower"),
    ("in training", "Compilations while training", "compilations", "lower"),
    ("first step", "Before the first step", "seconds", "lower"),
    ("on 2nd launch", "Before the first step, second launch", "seconds", "lower"),
)
QUIETLY = "--set=evaluation.best_metric=validation_loss"


def run_myxtts(*arguments: str) -> bool:
    """Run a command and return whether it succeeded."""
    program = [sys.executable, "-m", "myxtts", *arguments]
    return subprocess.run(program, stdout=subprocess.DEVNULL, check=False).returncode == 0


def make_corpus(folder: Path, lengths: str) -> None:
    if lengths == "like-ljspeech":
        write_corpus(folder, LJSPEECH_CLIPS)
        return
    run_myxtts("demo-data", str(folder))
    run_myxtts("prepare", str(folder))


def compiling_share(corpus: Path, steps: int) -> float:
    """Share of the first steps with variable shapes whose shape did not occur before."""
    config = XTTSConfig(train_data=str(corpus), batching="dynamic")
    schedule = open_corpus(config).train.schedule
    return len({schedule.batch_at(step).shape for step in range(steps)}) / steps


def train(folder: Path, name: str, settings: list[str], steps: int) -> dict[str, Any]:
    run_dir = folder / name.replace(" ", "-").replace(",", "")
    start = ("--train-data", str(folder / "corpus"), "--run-dir", str(run_dir), "--from-scratch")
    reports = []
    began = time.perf_counter()
    for launch in range(MAX_LAUNCHES):
        finished = run_myxtts(
            *("train", "--max-steps", str(steps)),
            *(start if launch == 0 else (*start[:2], "--resume", str(run_dir))),
            *("--save-every", str(SAVE_EVERY), "--evaluate-every", str(SAVE_EVERY)),
            "--set=saving.log_every=1",
            QUIETLY,
            *settings,
        )
        reports.append(json.loads((run_dir / "report.json").read_text()))
        if finished:
            break
    wall = time.perf_counter() - began
    with (run_dir / "metrics.jsonl").open() as file:
        lines = [json.loads(line) for line in file]
    seconds = np.array([line["step_seconds"] for line in lines])
    again = launch_again(run_dir, start[:2], settings) if len(reports) == 1 else None
    return {
        "wall": wall,
        "first step": seconds_to_first_step(reports[0]),
        "on 2nd launch": float("nan") if again is None else seconds_to_first_step(again),
        "launches": len(reports),
        "shapes": len({tuple(shape) for report in reports for shape in report["shapes"]}),
        "compilations": sum(report["compilations"] for report in reports),
        "in training": sum(report["compilations_after_warmup"] for report in reports),
        "compute share": sum(report["seconds"]["compute"] for report in reports) / wall,
        "steps per second": steps / float(seconds.sum()),
        "p50": float(np.percentile(seconds, 50)),
        "p99": float(np.percentile(seconds, 99)),
        "step seconds": seconds.tolist(),
    }


def launch_again(run_dir: Path, data: tuple[str, ...], settings: list[str]) -> dict[str, Any]:
    """Return the report of a new run that finds the cached programs of the first."""
    second = Path(f"{run_dir}-again")
    run_myxtts(
        *("train", "--max-steps", "1", "--run-dir", str(second), "--from-scratch", *data),
        QUIETLY,
        *settings,
    )
    report: dict[str, Any] = json.loads((second / "report.json").read_text())
    return report


def seconds_to_first_step(report: dict[str, Any]) -> float:
    """Return None if steps were compiled later: the time account does not distinguish them."""
    if report["compilations_after_warmup"]:
        return float("nan")
    return float(report["seconds"]["start_up"] + report["seconds"]["compile"])


def draw(results: dict[str, dict[str, Any]], file: Path) -> None:
    """Plot seconds per step over steps, on a logarithmic scale."""
    figure = new_figure(1_200, 620)
    panel = figure.subplots()
    for name, _, color in WAYS:
        if name in results:
            seconds = results[name]["step seconds"]
            panel.plot(seconds, ".", color=color, label=name)
    panel.set_yscale("log")
    panel.set_xlabel("step")
    style(panel, "Seconds of each training step")
    panel.legend()
    file.write_bytes(as_png(figure))


def main() -> None:
    parser = arguments(__doc__, repeats=1)
    parser.add_argument("--lengths", choices=LENGTHS, default=LENGTHS[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--variable-steps", type=int)
    parser.add_argument("--ways", nargs="*", default=[name for name, _, _ in WAYS])
    parser.add_argument("--times", type=Path, metavar="FILE", help="plot the time of each step")
    options = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        make_corpus(Path(folder) / "corpus", options.lengths)
        for name, settings, _ in WAYS:
            if name in options.ways:
                print(f"... {name}", file=sys.stderr)
                variable = "--set=data.batching=dynamic" in settings
                steps = options.variable_steps or options.steps if variable else options.steps
                results[name] = train(Path(folder), name, settings, steps)
                if steps < options.steps:
                    corpus = Path(folder) / "corpus"
                    fewer = compiling_share(corpus, options.steps) / compiling_share(corpus, steps)
                    results[name]["steps per second"] /= fewer
    tables = []
    for name, title, unit, better in FIGURES:
        values = {way: [it[name]] for way, it in results.items() if not math.isnan(it[name])}
        tables.append(Table(title, unit, better, values))
    report(tables, options)
    if options.times:
        draw(results, options.times)


if __name__ == "__main__":
    main()
