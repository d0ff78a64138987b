"""Imports TensorFlow without its messages about missing GPUs."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from myxtts.devices.compilations import CompilationLog, use_persistent_cache


def load_tensorflow(
    xla_cache: Path | None = None, *, is_brief: bool = False
) -> CompilationLog | None:
    """For programs; call it before anything else imports TensorFlow. `is_brief` if there is only a
    second of work.

    TensorFlow's C++ code writes to standard error before its log level takes effect. Users who set
    TF_CPP_MIN_LOG_LEVEL see everything. Programs that may use XLA pass a folder for its persistent
    cache and get a log that counts compilations.
    """
    if "tensorflow" in sys.modules:
        return None
    if xla_cache is not None:
        use_persistent_cache(xla_cache)
    # Faster matrix products on CPUs; off by default on CPUs that TensorFlow does not recognise. It
    # compiles a kernel for every new shape, which brief work does not make up for.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0" if is_brief else "1")
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        return None
    log = None if xla_cache is None else CompilationLog()
    # Failures also raise exceptions, and oneDNN logs unsupported types as errors.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _silent_standard_error(), _no_garbage_collection():
        import tensorflow as tf

        tf.config.list_physical_devices("GPU")
    # Worker processes call this function themselves.
    del os.environ["TF_CPP_MIN_LOG_LEVEL"]
    return log


def gpu_driver_is_there() -> bool:
    """Whether TensorFlow may find a GPU, without importing it: on Linux and WSL."""
    return any(Path(file).exists() for file in ("/dev/nvidiactl", "/dev/dxg"))


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """While hundreds of modules are imported, which stay: looking through them for garbage again
    and again, and once more when the program ends, takes more than a second.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


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
