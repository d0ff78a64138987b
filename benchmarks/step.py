"""Time to the first step, time per step, and the fraction spent in the alignment.

    .venv/bin/python benchmarks/step.py [--size tiny] [--tokens 48] [--frames 240] [--json FILE]

Seconds depend on the machine; the ratios matter.
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

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from myxtts.config.config import XTTSConfig  # noqa: E402
from myxtts.config.loading import load_config  # noqa: E402
from myxtts.data.batch import Batch, batch_signature  # noqa: E402
from myxtts.models.alignment import align  # noqa: E402
from myxtts.models.layers import slots_of  # noqa: E402
from myxtts.models.xtts import XTTS  # noqa: E402
from myxtts.training.acoustic import AcousticObjective  # noqa: E402
from myxtts.training.optimizer import FlatAdamW  # noqa: E402
from myxtts.training.step import compile_training_step  # noqa: E402


def seconds_of(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def random_batch(config: XTTSConfig, tokens: int, frames: int) -> Batch:
    generator = np.random.default_rng(0)
    size, n_mels = config.data.batch_size, config.data.n_mels
    reference_frames = config.model.reference_frames
    return Batch(
        token_ids=tf.constant(generator.integers(2, 80, (size, tokens)), tf.int32),
        token_lengths=tf.fill([size], tokens),
        token_ends=tf.zeros([size, tokens]),
        slots=slots_of(tf.fill([size], tokens), tokens),
        mel=tf.constant(generator.normal(size=(size, frames, n_mels)), tf.float32),
        mel_lengths=tf.fill([size], frames),
        reference=tf.constant(generator.normal(size=(size, reference_frames, n_mels)), tf.float32),
        reference_lengths=tf.fill([size], reference_frames),
        language_ids=tf.zeros([size], tf.int32),
    )


def build_step(config: XTTSConfig) -> tuple[Any, FlatAdamW]:
    """Build the training step of a model for random batches, and its optimizer."""
    model = XTTS(
        config,
        symbols=80,
        languages=1,
        mel_mean=0.0,
        mel_deviation=1.0,
        adversarial=config.training.adversarial_weight > 0.0,
        classifies_phonemes=config.training.phoneme_weight > 0.0,
    )
    optimizer = FlatAdamW(model.trainable_variables, config.training, 1_000_000)
    step = compile_training_step(
        AcousticObjective(model, config.training, total_steps=1_000_000),
        optimizer,
        batch_signature(config),
        config.training,
        xla=False,
    )
    return step, optimizer


def build_alignment(config: XTTSConfig, tokens: int, frames: int) -> Callable[[], Any]:
    """Build a function that aligns a batch of random scores."""
    size, positions = config.data.batch_size, frames // config.model.frames_per_position
    scores = tf.random.stateless_normal([size, positions, tokens], [0, 0])
    lengths = tf.fill([size], tokens), tf.fill([size], positions)
    search = tf.function(align, autograph=False)
    return lambda: search(scores, *lengths).numpy()


def measure(size: str, tokens: int, frames: int, repeats: int) -> dict[str, float]:
    config = load_config(overrides={"model": {"size": size}})
    batch = random_batch(config, tokens, frames)
    parts: dict[str, Any] = {}

    def build() -> None:
        parts["step"], _ = build_step(config)

    results = {"build": seconds_of(build)}
    step, update = parts["step"], tf.constant(True)
    results["trace"] = seconds_of(step.get_concrete_function)
    results["first step"] = seconds_of(lambda: step(batch, update).loss.numpy())
    search = build_alignment(config, tokens, frames)
    search()
    # Alternating, so that load on the machine affects both.
    step_seconds, alignment_seconds = [], []
    for _ in range(repeats):
        step_seconds.append(seconds_of(lambda: step(batch, update).loss.numpy()))
        alignment_seconds.append(seconds_of(search))
    results["steady step"] = statistics.median(step_seconds)
    results["alignment"] = statistics.median(alignment_seconds)
    results["alignment share"] = results["alignment"] / results["steady step"]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--frames", type=int, default=240)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = measure(options.size, options.tokens, options.frames, options.repeats)
    for name, value in results.items():
        shown = f"{value:8.1%}" if name.endswith("share") else f"{value:8.3f} s"
        print(f"{name:16}{shown}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
