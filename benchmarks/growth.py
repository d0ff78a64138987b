"""Survival and growth: what a run costs when it is long, its corpus large, or it is killed.

    python benchmarks/growth.py [--rows 10000 1000000] [--steps 10000] [--kills 10]

Time to the first batch by the number of clips and by the step that a run is resumed at, memory of
the process from step 500 on, and runs that are killed at random moments and resumed, whose weights
must be bit-equal to those of a run without interruption (tests/faults/kills.py).
"""

from __future__ import annotations

import argparse
import functools
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from drawn_corpus import write_corpus
from harness import Table, arguments, interleave, report

_ROOT = Path(__file__).parents[1]
_SPEAKERS = 50
_FAR = 10**9
_FIRST_MEMORY_STEP = 500


def first_batch(folder: str, step: int) -> None:
    """Print seconds and memory until the first batch. Runs in a separate process."""
    began = time.perf_counter()
    from myxtts.devices.startup import load_tensorflow

    load_tensorflow()
    from myxtts.config.config import XTTSConfig
    from myxtts.data.corpus import open_corpus
    from myxtts.data.pipeline import AcousticSource, Feed

    config = XTTSConfig(train_data=folder)
    imported = time.perf_counter()
    corpus = open_corpus(config)
    feed = Feed(AcousticSource(corpus.train, corpus.tokenizer, config), config, last_step=_FAR)
    feed.start(step)
    next(feed)
    finished = time.perf_counter()
    feed.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    figures = {"seconds": finished - imported, "start": finished - began, "memory": memory}
    print(json.dumps(figures))


def memory_of_training(folder: str, steps: int) -> None:
    """Print resident megabytes during the training of a miniature model."""
    from myxtts.devices.startup import load_tensorflow

    load_tensorflow()
    import psutil

    from myxtts.config.config import XTTSConfig
    from myxtts.config.loading import read_yaml
    from myxtts.data.corpus import open_corpus
    from myxtts.training.report import Observer
    from myxtts.training.trainer import XTTSTrainer

    memory: dict[int, float] = {}

    class Watching(Observer):
        def on_progress(self, step: int, total: int) -> None:
            if step % _FIRST_MEMORY_STEP == 0:
                memory[step] = psutil.Process().memory_info().rss / 2**20

    config = XTTSConfig(
        **read_yaml("miniature"),
        train_data=folder,
        max_steps=steps,
        evaluate_every=_FAR,
        save_every=_FAR,
    )
    with tempfile.TemporaryDirectory() as run:
        XTTSTrainer(config, open_corpus(config), run, observer=Watching()).fit()
    print(json.dumps(memory))


def in_process(*given: str) -> dict[str, float]:
    command = [sys.executable, __file__, *given]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--steps", type=int, default=10_000, help="of the run that is watched")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--open", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--train", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        return first_batch(options.open[0], int(options.open[1]))
    if options.train:
        return memory_of_training(options.train[0], int(options.train[1]))

    clips = Table("First batch after opening the corpus", "seconds", "lower")
    memory = Table("Memory at the first batch", "MB", "lower")
    resumed = Table("First batch after resuming", "seconds", "lower")
    growth = Table("Memory while training a miniature model", "MB", "lower")
    with tempfile.TemporaryDirectory() as parent:
        corpora = {rows: str(Path(parent, str(rows))) for rows in options.rows}
        for rows, folder in corpora.items():
            write_corpus(Path(folder), rows, speakers=_SPEAKERS)

        def opened(folder: str, step: int, *names: str) -> dict[str, float]:
            figures = in_process("--open", folder, str(step))
            return {name: figures[name] for name in names}

        by_size = {
            f"{rows:,} clips": functools.partial(opened, folder, 0, "seconds", "memory")
            for rows, folder in corpora.items()
        }
        smallest = corpora[min(corpora)]
        by_step = {
            f"step {step:,}": functools.partial(opened, smallest, step, "seconds")
            for step in (10, 100_000)
        }
        interleave(by_size, options.repeats, seconds=clips, memory=memory)
        interleave(by_step, options.repeats, seconds=resumed)
        tables = [clips, memory, resumed]
        if options.steps:
            found = in_process("--train", smallest, str(options.steps))
            first, *_, last = found
            growth.values = {f"step {step}": [found[step]] for step in (first, last)}
            tables.append(growth)
    if options.kills:
        program = [sys.executable, str(_ROOT / "tests" / "faults" / "kills.py")]
        subprocess.run([*program, "--kills", str(options.kills), "--last", "2"], check=True)
        growth.note = f"{options.kills} kills: all runs ended with bit-equal weights."
    report(tables, options)
    return None


if __name__ == "__main__":
    main()
