"""How many requests are answered or wait at one time; more are told to come back later."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator

from myxtts.serving.answers import RefusedError

_SHARE_OF_NEWEST = 0.2
_LONGEST_RETRY_SECONDS = 60


class Admission:
    """For one event loop; not thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._usual_seconds = 1.0
        self.in_progress = 0

    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        """Raises RefusedError if all are taken."""
        if self.in_progress >= self._most:
            seconds = min(_LONGEST_RETRY_SECONDS, max(1, math.ceil(self._usual_seconds)))
            raise RefusedError(
                429,
                f"{self.in_progress} requests are waiting already; try again in {seconds} s",
                {"Retry-After": str(seconds)},
            )
        self.in_progress += 1
        started = time.monotonic()
        try:
            yield
        finally:
            self.in_progress -= 1
            newest = time.monotonic() - started
            self._usual_seconds += _SHARE_OF_NEWEST * (newest - self._usual_seconds)
