"""Model sizes compared: parameters, files, memory of a training step, steps per second.

    .venv/bin/python benchmarks/sizes.py [--sizes tiny small normal big] [--steps 5] [--json FILE]

Each size trains on a batch of 16 random clips in a separate process, on the CPU. Its memory is the
peak of the process minus the memory before the model was built (Linux only). GPU memory is an
estimate: persistent state is computed from the weights (weights, two moments, EMA and weight
decay), and activations and gradients are assumed to need as much as on the CPU. A GPU needs a few
hundred megabytes more for its driver and libraries.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

import numpy as np  # noqa: E402
import psutil  # noqa: E402
import tensorflow as tf  # noqa: E402
from step import build_step, random_batch, seconds_of  # noqa: E402

from myxtts.config.config import SIZES  # noqa: E402
from myxtts.config.loading import load_config  # noqa: E402
from myxtts.runs.checkpoint import (  # noqa: E402
    CheckpointInfo,
    Tensors,
    save_checkpoint,
)

_PARTS = ("text_encoder", "voice_encoder", "frame_encoder", "decoder")
# Weights, two moments, EMA and weight decay.
_LASTING_COPIES = 5


def most_memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024


def memory_mb() -> float:
    return psutil.Process().memory_info().rss / 2**20


def parameters_by_part(weights: Tensors) -> dict[str, int]:
    counts = {
        part: sum(value.size for name, value in weights.items() if part in name.split("/"))
        for part in _PARTS
    }
    counts["all"] = sum(value.size for value in weights.values())
    if sum(counts[part] for part in _PARTS) != counts["all"]:
        raise SystemExit("some weights belong to no part of the model")
    return counts


def files_mb(state: Tensors) -> dict[str, float]:
    """Sizes of the files of a checkpoint, without the small configuration file."""
    with tempfile.TemporaryDirectory() as folder:
        info = CheckpointInfo(step=0, mel_mean=0.0, mel_deviation=1.0)
        checkpoint = save_checkpoint(Path(folder), info, state, {}, keep=1)
        to_speak = (checkpoint / "model.safetensors").stat().st_size
        whole = sum(file.stat().st_size for file in checkpoint.iterdir())
    return {"to speak": to_speak / 1e6, "to train on": whole / 1e6}


def measure(size: str, tokens: int, frames: int, steps: int) -> dict[str, Any]:
    """Runs in a separate process, so that other sizes do not affect its memory."""
    config = load_config(overrides={"model": {"size": size}})
    before = most_memory_mb()
    batch = random_batch(config, tokens, frames)
    step, optimizer = build_step(config)
    update = tf.constant(True)
    step.get_concrete_function()
    traced = memory_mb()

    def take_step() -> None:
        step(batch, update).loss.numpy()

    take_step()
    seconds = [seconds_of(take_step) for _ in range(steps)]
    most = most_memory_mb()
    weights = optimizer.weights_by_name()
    parameters = parameters_by_part(weights)
    lasting = _LASTING_COPIES * parameters["all"] * np.dtype(np.float32).itemsize / 1e6
    return {
        "parameters": parameters,
        "files mb": files_mb(optimizer.state()),
        "cpu memory mb": most - before,
        "lasting mb": lasting,
        "step adds mb": most - traced,
        "gpu memory mb": lasting + most - traced,
        "steps per second": 1.0 / statistics.median(seconds) if seconds else None,
    }


def show(size: str, result: dict[str, Any]) -> None:
    parameters = "".join(f"{result['parameters'][part] / 1e6:10.2f}" for part in (*_PARTS, "all"))
    files = "".join(f"{megabytes:10.1f}" for megabytes in result["files mb"].values())
    memory = "".join(
        f"{result[name]:10.0f}" for name in ("cpu memory mb", "step adds mb", "gpu memory mb")
    )
    speed = result["steps per second"]
    print(f"{size:8}{parameters}{files}{memory}{f'{speed:10.2f}' if speed else '         -'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--timed", nargs="*", default=["tiny", "small"], choices=list(SIZES))
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--frames", type=int, default=240)
    parser.add_argument("--steps", type=int, default=10, help="steps to time")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"{'':8}{'million parameters':^40}{'checkpoint, MB':^20}{'memory, MB':^30}")
    titles = ("text", "voice", "decoder", "all", "to speak", "training")
    titles += ("CPU", "by a step", "GPU, est.", "steps/s")
    print(" " * 8 + "".join(f"{title:>10}" for title in titles))
    results = {}
    for size in options.sizes:
        steps = options.steps if size in options.timed else 0
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            results[size] = pool.submit(
                measure, size, options.tokens, options.frames, steps
            ).result()
        show(size, results[size])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
