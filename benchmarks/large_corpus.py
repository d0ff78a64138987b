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

import numpy as np

from myxtts.config.config import XTTSConfig
from myxtts.data.features.cache import CACHE_FORMAT, INDEX_TYPE
from myxtts.data.features.prepare import settings_fingerprint
from myxtts.data.features.subset import CorpusSubset

SYMBOLS = ("<padding>", "<edge>", *"abcdefghij")


def write_corpus(folder: Path, rows: int) -> None:
    folder.mkdir()
    for subset, count in (("train", rows), ("eval", 16)):
        lines = (
            f"clip{row:08d}|some words of text number {row}|speaker{row % 50}"
            for row in range(count)
        )
        text = "audio_file|text|speaker_name\n" + "\n".join(lines) + "\n"
        (folder / f"metadata_{subset}.csv").write_text(text)
        write_features(folder, subset, count)


def write_features(folder: Path, subset: str, count: int) -> None:
    config = XTTSConfig(train_data=str(folder))
    generator = np.random.default_rng(0)
    seconds = np.clip(generator.normal(6.6, 2.2, count), 1.1, 10.1)
    index = np.zeros(count, INDEX_TYPE)
    index["mels_count"] = seconds * 86
    index["tokens_count"] = np.minimum(seconds * 14, 180)
    index["speaker"] = np.arange(count) % 50
    cache = folder / "myxtts-cache" / subset
    cache.mkdir(parents=True)
    np.save(cache / "index.npy", index)
    np.save(cache / "tokens.npy", generator.integers(2, 10, 200).astype(np.int32))
    np.save(cache / "mels.npy", generator.normal(size=(900, 80)).astype(np.float16))
    np.save(cache / "audio.npy", np.zeros(1, np.int16))
    np.save(cache / "texts.npy", np.zeros(1, np.uint8))
    content = {
        "format": CACHE_FORMAT,
        "settings": settings_fingerprint(config),
        "source": "",
        "description": "",
        "tokens": "phonemes",
        "symbols": SYMBOLS,
        "languages": ["en"],
        "speakers": [f"speaker{number}" for number in range(50)],
        "mel_mean": 0.0,
        "mel_deviation": 1.0,
        "rejected": {},
        "rejections": [],
    }
    (cache / "cache.json").write_text(json.dumps(content))
    from myxtts.data.features.cache import open_cache

    CorpusSubset.of(config, subset).remember(open_cache(cache))


def open_and_take_a_batch(folder: str) -> None:
    """Runs in a separate process; prints seconds since its start."""
    process_started = time.perf_counter()
    from myxtts.devices.loading import load_tensorflow

    load_tensorflow()
    from myxtts.data.features import subset
    from myxtts.data.feeding.pipeline import Feed
    from myxtts.data.feeding.sources import AcousticSource
    from myxtts.data.opening import open_corpus

    # There are no audio files to check, so the cache is reused at any size.
    subset.LARGE_METADATA_BYTES = 0
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
    from myxtts.data.corpus.dataset import LJSpeechDataset

    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "corpus"
        write_corpus(folder, rows)
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
