"""Overhead of a strategy: a step under MirroredStrategy with one replica against a plain step.

    .venv/bin/python benchmarks/strategy.py [--steps 60] [--json FILE]

Both train the tiny model on the same batch and alternate, so that load on the machine affects both;
the result is the ratio of the medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

import tensorflow as tf  # noqa: E402
from step import build_step, random_batch  # noqa: E402

from myxtts.config.config import XTTSConfig  # noqa: E402


def build(strategy: tf.distribute.Strategy, config: XTTSConfig, batch: Any) -> Callable[[], float]:
    """A function that takes one step and returns its duration."""
    with strategy.scope():
        step, _ = build_step(config)
    update = tf.constant(True)

    def timed() -> float:
        started = time.perf_counter()
        with strategy.scope():
            step(batch, update).loss.numpy()
        return time.perf_counter() - started

    return timed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    config = XTTSConfig()
    batch = random_batch(config, tokens=48, frames=240)
    steps = {
        "plain": build(tf.distribute.get_strategy(), config, batch),
        "mirrored, one replica": build(tf.distribute.MirroredStrategy(["CPU:0"]), config, batch),
    }
    for take_step in steps.values():
        take_step()
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(options.steps):
        for name, take_step in steps.items():
            seconds[name].append(take_step())
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, median in medians.items():
        print(f"{name:24}{median:8.3f} s")
    ratio = medians["mirrored, one replica"] / medians["plain"]
    print(f"{'ratio':24}{ratio:8.3f}")
    if options.json:
        options.json.write_text(json.dumps(medians | {"ratio": ratio}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
