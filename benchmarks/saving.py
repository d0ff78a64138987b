"""Cost of a checkpoint: steps in windows with a save compared with windows without.

    .venv/bin/python benchmarks/saving.py [--size tiny] [--window 20] [--rounds 10] [--json FILE]

Windows with and without a save alternate, so that load on the machine affects both. The save is
that of a run: copied in the training thread; written, synced and verified in another. Each window
with a save is divided by the mean of its two neighbours; the result is the median of these ratios.
Its limit is 1.05.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

import tensorflow as tf  # noqa: E402
from step import build_step, random_batch  # noqa: E402

from myxtts.config.config import XTTSConfig  # noqa: E402
from myxtts.runs.checkpoint import FILES_OF_RUN, CheckpointInfo  # noqa: E402
from myxtts.runs.checkpoint_writer import CheckpointWriter  # noqa: E402
from myxtts.runs.run_dir import RunDir  # noqa: E402

LIMIT = 1.05


def measure(size: str, window: int, rounds: int, run_dir: Path) -> dict[str, Any]:
    config = XTTSConfig(size=size)
    batch = random_batch(config, tokens=48, frames=240)
    step, optimizer = build_step(config)
    for name in FILES_OF_RUN:
        (run_dir / name).write_text("{}")
    seconds: dict[str, list[float]] = {"without": [], "with": []}
    pauses, writes = [], []
    with CheckpointWriter(RunDir(run_dir), keep=2) as writer:
        for number in range(-1, 2 * rounds + 1):
            saves = number % 2 == 1
            started = time.perf_counter()
            if saves:
                info = CheckpointInfo(step=number, mel_mean=0.0, mel_deviation=1.0)
                writer.save(info, optimizer.state())
                pauses.append(time.perf_counter() - started)
            for _ in range(window):
                step(batch, tf.constant(True)).loss.numpy()
            spent = time.perf_counter() - started
            # A write that takes longer than the window must not affect the next one.
            writer.wait()
            if saves:
                writes.append(time.perf_counter() - started - spent)
            if number >= 0:  # the first window includes tracing
                seconds["with" if saves else "without"].append(spent / window)
    folder = RunDir(run_dir).newest_checkpoint().folder
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    before_and_after = zip(seconds["without"], seconds["without"][1:], strict=False)
    ratios = [
        saving / statistics.mean(beside)
        for saving, beside in zip(seconds["with"], before_and_after, strict=True)
    ]
    return {
        "size": size,
        "checkpoint_mb": sum(file.stat().st_size for file in folder.iterdir()) / 1e6,
        "step_seconds_without": medians["without"],
        "step_seconds_with": medians["with"],
        "ratio": statistics.median(ratios),
        "pause_seconds": statistics.median(pauses),
        "left_to_write_seconds": statistics.median(writes),
        "window": window,
        "rounds": rounds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--window", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--run-dir", type=Path, help="where to write; default: a temporary folder")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.run_dir) as folder:
        result = measure(options.size, options.window, options.rounds, Path(folder))
    print(f"checkpoint of the {result['size']} model {result['checkpoint_mb']:10.1f} MB")
    print(f"step without a save       {result['step_seconds_without']:10.4f} s")
    print(f"step in the window        {result['step_seconds_with']:10.4f} s")
    print(f"ratio (limit {LIMIT})        {result['ratio']:10.3f}")
    print(f"pause of the step's thread{result['pause_seconds']:10.4f} s")
    print(f"written after the window  {result['left_to_write_seconds']:10.4f} s")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
