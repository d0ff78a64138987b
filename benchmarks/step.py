"""Time to the first step and per step, and the same blocks in PyTorch.

    python benchmarks/step.py [--size tiny] [--peers PEERS] [--blocks 6] [--json FILE]

The whole step first: building, tracing, the first step, a steady step, and the alignment in it.
Then a step of the decoder's convolution blocks alone with AdamW, with and without XLA, next to
PyTorch, eager and compiled, at the same sizes and number of threads.
"""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from harness import Table, arguments, ask_peer, interleave, report

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from myxtts.config.config import XTTSConfig  # noqa: E402
from myxtts.config.loading import load_config  # noqa: E402
from myxtts.data.batch import Batch, batch_signature  # noqa: E402
from myxtts.models.alignment import align  # noqa: E402
from myxtts.models.layers import ConvBlock, slots_of  # noqa: E402
from myxtts.models.xtts import XTTS  # noqa: E402
from myxtts.training.acoustic import AcousticObjective  # noqa: E402
from myxtts.training.optimizer import FlatAdamW  # noqa: E402
from myxtts.training.step import compile_training_step  # noqa: E402

_STEPS = 20


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


def measure_whole(size: str, tokens: int, frames: int) -> dict[str, float]:
    config = load_config(overrides={"model": {"size": size}})
    batch, update = random_batch(config, tokens, frames), tf.constant(True)
    parts: dict[str, Any] = {}

    def build() -> None:
        parts["step"], _ = build_step(config)

    seconds = {"build": seconds_of(build)}
    step = parts["step"]
    seconds["trace"] = seconds_of(step.get_concrete_function)
    seconds["first"] = seconds_of(lambda: step(batch, update).loss.numpy())
    search = build_alignment(config, tokens, frames)
    search()
    # Alternating, so that load on the machine affects both.
    pairs = [
        (seconds_of(lambda: step(batch, update).loss.numpy()), seconds_of(search))
        for _ in range(_STEPS)
    ]
    seconds["steady"], seconds["alignment"] = map(statistics.median, zip(*pairs, strict=True))
    return seconds


def measure_blocks(given: dict[str, Any], *, xla: bool) -> dict[str, float]:
    keras.utils.set_random_seed(0)
    blocks = [ConvBlock(given["width"], given["kernel"]) for _ in range(given["blocks"])]
    for block in blocks:
        block.build()
    variables = [variable for block in blocks for variable in block.trainable_variables]
    optimizer = FlatAdamW(variables, XTTSConfig().training, 1_000)

    @tf.function(jit_compile=xla, autograph=False)
    def take(values: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            made = values
            for block in blocks:
                made = block.call_whole(made)
            loss = tf.reduce_mean(tf.square(made))
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        optimizer.apply(optimizer.flatten(gradients), loss, tf.constant(True))
        return loss

    batch = tf.random.stateless_normal([given["batch"], given["frames"], given["width"]], [0, 0])
    first = seconds_of(lambda: take(batch).numpy())
    take(batch)
    steady = statistics.median(seconds_of(lambda: take(batch).numpy()) for _ in range(_STEPS))
    return {"first": first, "steady": steady}


def main() -> None:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--frames", type=int, default=240)
    parser.add_argument("--blocks", type=int, default=6)
    options = parser.parse_args()
    model = load_config(overrides={"model": {"size": options.size}}).model
    given = {
        "width": model.decoder_width,
        "kernel": model.kernel_positions,
        "blocks": options.blocks,
        "batch": XTTSConfig().data.batch_size,
        "frames": options.frames,
        "steps": _STEPS,
        "threads": len(os.sched_getaffinity(0)),
    }
    whole = {
        name: Table(title, "seconds", "lower")
        for name, title in (
            ("steady", "Whole training step"),
            ("alignment", "Alignment search in it"),
            ("first", "First step"),
            ("trace", "Tracing"),
            ("build", "Building the model"),
        )
    }
    measure = functools.partial(measure_whole, options.size, options.tokens, options.frames)
    interleave({"MyXTTS": measure}, options.repeats, **whole)
    blocks = {
        "steady": Table("Step of the decoder's blocks", "seconds", "lower"),
        "first": Table("First step of the blocks, with compilation", "seconds", "lower"),
    }

    def torch(compiled: bool) -> dict[str, float]:
        asked = given | {"compiled": compiled}
        return ask_peer(options.peers, "loaders", "torch_step.py", asked)

    contenders = {
        "MyXTTS": lambda: measure_blocks(given, xla=False),
        "MyXTTS, XLA": lambda: measure_blocks(given, xla=True),
        "PyTorch": lambda: torch(False),
        "PyTorch, compiled": lambda: torch(True),
    }
    interleave(contenders, options.repeats, **blocks)
    report([*blocks.values(), *whole.values()], options)


if __name__ == "__main__":
    main()
