"""Probes TensorFlow and its GPUs in a separate process.

This way a TensorFlow that does not start or crashes can be reported, its messages about GPUs can be
captured, and this process can still configure devices. The child runs this same file, which
therefore imports nothing from MyXTTS.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

_LONGEST_SECONDS = 300


@dataclass(frozen=True)
class SeenGpu:
    name: str
    compute_capability: tuple[int, int] | None
    failure: str | None = None
    """Why a small matrix product failed on it."""


@dataclass(frozen=True)
class TensorFlowView:
    """The installed TensorFlow; `failure` says why it does not work at all."""

    version: str | None = None
    cuda_version: str | None = None  # None if built without CUDA
    cudnn_version: str | None = None
    gpus: tuple[SeenGpu, ...] = ()
    failure: str | None = None
    words: tuple[str, ...] = ()
    """Lines it wrote to standard error."""


def ask_tensorflow(python: str = sys.executable) -> TensorFlowView:
    """Starts TensorFlow in another process, runs a small computation and returns its report."""
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "0"}
    # -P: modules in this folder must not shadow packages of the same name.
    command = [python, "-P", __file__]
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return TensorFlowView(failure=f"did not respond within {_LONGEST_SECONDS} s")
    words = tuple(line for line in done.stderr.splitlines() if line.strip())
    if done.returncode != 0:
        return TensorFlowView(failure=_describe_end(done.returncode, words), words=words)
    return read_answer(done.stdout.splitlines()[-1], words)


def read_answer(line: str, words: tuple[str, ...]) -> TensorFlowView:
    answer = json.loads(line)
    gpus = tuple(
        SeenGpu(gpu["name"], _pair(gpu["compute_capability"]), gpu["failure"])
        for gpu in answer.pop("gpus")
    )
    return TensorFlowView(**answer, gpus=gpus, words=words)


def _pair(numbers: list[int] | None) -> tuple[int, int] | None:
    return (numbers[0], numbers[1]) if numbers else None


def _describe_end(returncode: int, words: tuple[str, ...]) -> str:
    if returncode < 0:
        return f"killed by {signal.Signals(-returncode).name}"
    return words[-1].strip() if words else f"exited with code {returncode}"


def _look() -> dict[str, Any]:
    """Runs in the child process."""
    import tensorflow as tf

    build = tf.sysconfig.get_build_info()
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        # Another process may be training on it: use as little memory as possible.
        tf.config.experimental.set_memory_growth(gpu, True)
    return {
        "version": tf.__version__,
        "cuda_version": build.get("cuda_version") if build.get("is_cuda_build") else None,
        "cudnn_version": build.get("cudnn_version"),
        "failure": _compute("CPU:0", xla=False),
        "gpus": [_look_at(gpu, index) for index, gpu in enumerate(gpus)],
    }


def _look_at(gpu: Any, index: int) -> dict[str, Any]:
    import tensorflow as tf

    details = tf.config.experimental.get_device_details(gpu)
    return {
        "name": details.get("device_name", "unnamed GPU"),
        "compute_capability": details.get("compute_capability"),
        # Training on GPUs uses XLA, which needs more of CUDA than plain execution.
        "failure": _compute(f"GPU:{index}", xla=True),
    }


def _compute(device: str, *, xla: bool) -> str | None:
    """None, or the reason of the failure."""
    import tensorflow as tf

    def multiply() -> tf.Tensor:
        matrix = tf.ones([64, 64])
        return tf.reduce_sum(matrix @ matrix)

    try:
        with tf.device(device):
            result = float(tf.function(multiply, jit_compile=xla)())
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    return None if result == 64.0**3 else f"computed {result:g}, expected {64.0**3:g}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_look()) + "\n")
