"""Imports TensorFlow without the lines that it prints about GPUs it does not find."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from myxtts.devices.compilations import CompilationLog, use_persistent_cache


def load_tensorflow(xla_cache: Path | None = None) -> CompilationLog | None:
    """To be called by programs, before anything else imports TensorFlow.

    Its C++ parts write to the process's standard error before their log level takes effect.
    Who sets TF_CPP_MIN_LOG_LEVEL sees everything. Programs that may use XLA name a folder in
    which it keeps compiled programs, and get a log that counts its compilations.
    """
    if "tensorflow" in sys.modules:
        return None
    if xla_cache is not None:
        use_persistent_cache(xla_cache)
    # Faster products on CPUs, which TensorFlow leaves off where it does not know the CPU.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        return None
    log = None if xla_cache is None else CompilationLog()
    # What goes wrong comes as an exception too; what oneDNN leaves to others is told as an error.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _silent_standard_error():
        import tensorflow as tf

        tf.config.list_physical_devices("GPU")
    # Worker processes decide for themselves, by this same function.
    del os.environ["TF_CPP_MIN_LOG_LEVEL"]
    return log


def gpu_driver_is_there() -> bool:
    """Whether TensorFlow may find a GPU, told without importing it: Linux, and Linux on Windows."""
    return any(Path(file).exists() for file in ("/dev/nvidiactl", "/dev/dxg"))


@contextlib.contextmanager
def _silent_standard_error() -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
