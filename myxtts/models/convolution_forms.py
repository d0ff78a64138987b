"""Which form of convolutions is traced: TensorFlow's own, or one that XLA makes fast on CPUs."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

_for_xla_on_cpus = contextvars.ContextVar("_for_xla_on_cpus", default=False)


@contextlib.contextmanager
def convolving_for_xla_on_cpus() -> Iterator[None]:
    """What is traced inside takes the forms that XLA for CPUs runs fast."""
    token = _for_xla_on_cpus.set(True)
    try:
        yield
    finally:
        _for_xla_on_cpus.reset(token)


def convolves_for_xla_on_cpus() -> bool:
    return _for_xla_on_cpus.get()
