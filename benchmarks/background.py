"""How much background evaluation of a checkpoint slows down training.

    .venv/bin/python benchmarks/background.py --run demo/run --train-data demo/corpus
        [--steps 160] [--json FILE]

The tiny model trains on one batch while the run's checkpoint is evaluated in the background. The
evaluation is paused and resumed in turns, so that steps with and without it alternate; the result
is the ratio of the medians. Its limit is 1.15.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import tempfile
import time
from pathlib import Path

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

import tensorflow as tf  # noqa: E402
from step import build_step, random_batch  # noqa: E402

from myxtts.config.config import XTTSConfig  # noqa: E402
from myxtts.runs.run_dir import RunDir, find_checkpoint  # noqa: E402
from myxtts.training.watching.background import BackgroundEvaluation  # noqa: E402

LIMIT = 1.15
_BLOCK_STEPS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--train-data", required=True)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    # Enough sentences to outlast all steps.
    config = XTTSConfig(train_data=options.train_data, measured_sentences=60)
    batch = random_batch(config, tokens=48, frames=240)
    step, _ = build_step(config)
    step(batch, tf.constant(True)).loss.numpy()

    checkpoint = find_checkpoint(options.run).folder
    seconds: dict[str, list[float]] = {"alone": [], "beside measuring": []}
    with tempfile.TemporaryDirectory() as folder:
        measurer = BackgroundEvaluation(RunDir(folder), config, ["en"])
        for block in range(options.steps // _BLOCK_STEPS):
            if measurer.poll() or not measurer.is_busy:
                measurer.start(block, checkpoint)
            process = measurer._process
            assert process is not None
            name = "beside measuring" if block % 2 else "alone"
            os.kill(process.pid, signal.SIGCONT if block % 2 else signal.SIGSTOP)
            for _ in range(_BLOCK_STEPS):
                started = time.perf_counter()
                step(batch, tf.constant(True)).loss.numpy()
                seconds[name].append(time.perf_counter() - started)
        os.kill(process.pid, signal.SIGCONT)
        measurer.close()
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, median in medians.items():
        print(f"{name:24}{median:8.3f} s")
    ratio = medians["beside measuring"] / medians["alone"]
    print(f"{'ratio':24}{ratio:8.3f}   limit {LIMIT}")
    if options.json:
        options.json.write_text(json.dumps(medians | {"ratio": ratio}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
