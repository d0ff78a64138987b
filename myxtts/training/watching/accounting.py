"""Every second of a run in exactly one bucket."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

BUCKETS = (
    "start_up",
    "compile",
    "data_wait",
    "compute",
    "host",
    "evaluation",
    "checkpoint",
)


class TimeAccount:
    """A clock that is always running for one bucket; `spending` switches it for a while.

    What nothing else claims belongs to the bucket set by `settle`, so the sum is the wall time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds = dict.fromkeys(BUCKETS, 0.0)
        self._bucket = "start_up"
        self._since = clock()

    @contextlib.contextmanager
    def spending(self, bucket: str) -> Iterator[None]:
        before = self._bucket
        self._switch(bucket)
        try:
            yield
        finally:
            self._switch(before)

    def settle(self, bucket: str) -> None:
        """From now on, time outside `spending` belongs to this bucket."""
        self._switch(bucket)

    def seconds(self) -> dict[str, float]:
        """Seconds of each bucket so far, and their sum as `wall`."""
        self._switch(self._bucket)
        return {**self._seconds, "wall": sum(self._seconds.values())}

    def _switch(self, bucket: str) -> None:
        if bucket not in self._seconds:
            raise KeyError(bucket)
        now = self._clock()
        self._seconds[self._bucket] += now - self._since
        self._bucket, self._since = bucket, now


def shares(seconds: dict[str, float]) -> dict[str, float]:
    """Of the wall time, by bucket."""
    wall = max(seconds["wall"], 1e-9)
    return {bucket: seconds[bucket] / wall for bucket in BUCKETS}


def stepping_seconds(seconds: dict[str, float]) -> float:
    """Of the steps themselves: without start-up, evaluations and checkpoints."""
    return seconds["compute"] + seconds["data_wait"] + seconds["host"]


def steady_compute_share(seconds: dict[str, float]) -> float:
    """Of the time of the steps themselves."""
    return seconds["compute"] / max(stepping_seconds(seconds), 1e-9)


def losses(seconds: dict[str, float], valid_work_ratio: float) -> dict[str, float]:
    """What was not useful, as shares of the wall time, the largest first."""
    lost = shares(seconds)
    lost["padding"] = lost.pop("compute") * (1.0 - valid_work_ratio)
    return dict(sorted(lost.items(), key=lambda item: -item[1]))


_REMEDIES = {
    "start_up": "a longer run spreads it thinner",
    "compile": "a longer run spreads it thinner, and under XLA fewer shapes compile less",
    "host": "raise saving.log_every",
    "evaluation": "raise evaluation.evaluate_every",
    "checkpoint": "raise saving.save_every",
    "padding": "raise data.shape_count, so that shapes fit the clips better",
}


def advice(
    seconds: dict[str, float], valid_work_ratio: float, remedy_for_waiting: str
) -> list[str]:
    """Where most of the time that was not useful went, and the setting that changes it."""
    largest, share = next(iter(losses(seconds, valid_work_ratio).items()))
    remedy = _REMEDIES.get(largest, remedy_for_waiting)
    return [f"The largest loss was {largest.replace('_', ' ')}, {share:.1%} of the time: {remedy}."]
