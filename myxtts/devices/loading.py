"""Imports TensorFlow without its messages about missing GPUs."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from myxtts.devices.program_cache import use_persistent_cache


def load_tensorflow(xla_cache: Path | None = None, *, is_brief: bool = False) -> None:
    """Import TensorFlow for a program; call it before anything else does.

    `is_brief` is for a second of work. `xla_cache` is the folder of XLA's persistent cache.
    TensorFlow's C++ code writes to standard error before its log level takes effect. Users who set
    TF_CPP_MIN_LOG_LEVEL see everything.
    """
    if "tensorflow" in sys.modules:
        return
    if xla_cache is not None:
        use_persistent_cache(xla_cache)
    # Faster matrix products on CPUs; off by default on CPUs that TensorFlow does not recognise. It
    # compiles a kernel for every new shape, which brief work does not make up for.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0" if is_brief else "1")
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        return
    # Failures also raise exceptions, and oneDNN logs unsupported types as errors.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _silent_standard_error(), _no_garbage_collection():
        import tensorflow as tf

        tf.config.list_physical_devices("GPU")
    # Worker processes call this function themselves.
    del os.environ["TF_CPP_MIN_LOG_LEVEL"]


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
