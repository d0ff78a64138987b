"""Startup time and memory by corpus size: reading rows, planning and the first batch.

    .venv/bin/python benchmarks/large_corpus.py [--rows 10000 100000 1000000] [--json FILE]

For each size a corpus is written whose metadata has that many rows and whose cached features all
share the audio of one clip; then a new process opens it and loads the first batch.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from drawn_corpus import reuse_features, write_corpus

from myxtts.config.config import XTTSConfig

SPEAKERS = 50


def open_and_take_a_batch(folder: str) -> None:
    """Open a corpus in a separate process and print seconds since its start."""
    process_started = time.perf_counter()
    from myxtts.devices.startup import load_tensorflow

    load_tensorflow()
    from myxtts.data.corpus import open_corpus
    from myxtts.data.pipeline import AcousticSource, Feed

    reuse_features()
    config = XTTSConfig(train_data=folder)
    imported = time.perf_counter()
    corpus = open_corpus(config)
    planned = time.perf_counter()
    feed = Feed(AcousticSource(corpus.train, corpus.tokenizer, config), config, last_step=100)
    feed.start(0)
    next(feed)
    finished = time.perf_counter()
    feed.close()
    print(
        json.dumps(
            {
                "open and plan": planned - imported,
                "first batch": finished - process_started,
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
    print(f"{'rows':>10}{'read rows':>12}{'open, plan':>12}{'first batch':>13}{'memory':>10}")
    for rows, values in results.items():
        print(
            f"{rows:>10,}{values['read rows']:>10.2f} s{values['open and plan']:>10.2f} s"
            f"{values['first batch']:>11.2f} s{values['memory mb']:>7.0f} MB"
        )
    first, last = results[options.rows[0]], results[options.rows[-1]]
    ratio = last["first batch"] / first["first batch"]
    print(f"First batch, {options.rows[-1]:,} rows over {options.rows[0]:,}: {ratio:.2f} x")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
