"""Imports TensorFlow without the lines that it prints about GPUs it does not find."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


def load_tensorflow() -> None:
    """To be called by programs, before anything else imports TensorFlow.

    Its C++ parts write to the process's standard error before their log level takes effect.
    Who sets TF_CPP_MIN_LOG_LEVEL sees everything.
    """
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ or "tensorflow" in sys.modules:
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    with _silent_standard_error():
        import tensorflow as tf

        tf.config.list_physical_devices("GPU")
    # Worker processes decide for themselves, by this same function.
    del os.environ["TF_CPP_MIN_LOG_LEVEL"]


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
