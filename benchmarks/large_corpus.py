"""Growth with the corpus: reading rows, planning, shuffling, the first batch, and memory.

    .venv/bin/python benchmarks/large_corpus.py [--rows 10000 100000 1000000] [--json FILE]

For each size a corpus is written whose metadata has that many rows and whose cached features all
share the audio of one clip; then a new process opens it and loads the first batch. Exponents are
those of the last two sizes: 1 means linear. Held memory is anonymous, without mapped files.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from drawn_corpus import write_corpus

from myxtts.config.config import XTTSConfig
from myxtts.data import corpus as corpora

SPEAKERS = 50
# Caches are remembered for small corpora too.
corpora.LARGE_METADATA_BYTES = 0


def open_and_take_a_batch(folder: str) -> None:
    """Open a corpus in a separate process and print seconds since its start."""
    process_started = time.perf_counter()
    from myxtts.devices.startup import load_tensorflow

    load_tensorflow()
    from myxtts.data.corpus import open_corpus
    from myxtts.data.pipeline import AcousticSource, Feed

    config = XTTSConfig(train_data=folder)
    imported = time.perf_counter()
    corpus = open_corpus(config)
    planned = time.perf_counter()
    feed = Feed(AcousticSource(corpus.train, corpus.tokenizer, config), config, last_step=100)
    feed.start(0)
    next(feed)
    finished = time.perf_counter()
    feed.close()
    schedule = corpus.train.schedule
    schedule.batch_at(3 * schedule.batches_per_epoch)
    shuffled = time.perf_counter()
    [held_kb] = re.findall(r"RssAnon:\s+(\d+)", Path("/proc/self/status").read_text())
    print(
        json.dumps(
            {
                "open and plan": planned - imported,
                "first batch": finished - process_started,
                "shuffle": shuffled - finished,
                "held mb": int(held_kb) / 1_024,
                "memory mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024,
            }
        )
    )


def measure(rows: int) -> dict[str, float]:
    from myxtts.data.metadata import LJSpeechDataset

    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "corpus"
        write_corpus(folder, rows, speakers=SPEAKERS)
        started = time.perf_counter()
        dataset = LJSpeechDataset(folder)
        reading = time.perf_counter() - started
        assert len(dataset) == rows
        result = subprocess.run(
            [sys.executable, __file__, "--open", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            sys.exit(result.stderr)
        return {"read rows": reading} | json.loads(result.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--open", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.open:
        open_and_take_a_batch(options.open)
        return
    results = {rows: measure(rows) for rows in options.rows}
    names = list(next(iter(results.values())))
    print(f"{'rows':>12}" + "".join(f"{name:>16}" for name in names))
    for rows, values in results.items():
        print(f"{rows:>12,}" + "".join(f"{values[name]:>16.3g}" for name in names))
    if len(results) > 1:
        (fewer, small), (more, large) = list(results.items())[-2:]
        exponents = [math.log(large[it] / small[it]) / math.log(more / fewer) for it in names]
        print(f"{'exponent':>12}" + "".join(f"{exponent:>16.2f}" for exponent in exponents))
        per_clip = (large["held mb"] - small["held mb"]) * 2**20 / (more - fewer)
        print(f"{per_clip:.0f} bytes held per clip")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
