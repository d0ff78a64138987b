"""Accounts for every second of a run in exactly one bucket."""

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
    """A clock that always runs for one bucket; `spending` switches it temporarily.

    All other time goes to the bucket set by `settle`, so the buckets add up to the wall time.
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
        """From now on, time outside `spending` goes to this bucket."""
        self._switch(bucket)

    def seconds(self) -> dict[str, float]:
        """Seconds per bucket so far, and their sum as `wall`."""
        self._switch(self._bucket)
        return {**self._seconds, "wall": sum(self._seconds.values())}

    def _switch(self, bucket: str) -> None:
        if bucket not in self._seconds:
            raise KeyError(bucket)
        now = self._clock()
        self._seconds[self._bucket] += now - self._since
        self._bucket, self._since = bucket, now


def shares(seconds: dict[str, float]) -> dict[str, float]:
    """Fractions of the wall time, by bucket."""
    wall = max(seconds["wall"], 1e-9)
    return {bucket: seconds[bucket] / wall for bucket in BUCKETS}


def stepping_seconds(seconds: dict[str, float]) -> float:
    """Time in the steps themselves: without start-up, evaluations and checkpoints."""
    return seconds["compute"] + seconds["data_wait"] + seconds["host"]


def steady_compute_share(seconds: dict[str, float]) -> float:
    """Fraction of the time in the steps themselves."""
    return seconds["compute"] / max(stepping_seconds(seconds), 1e-9)


def overheads(seconds: dict[str, float], valid_work_ratio: float) -> dict[str, float]:
    """Everything but useful computation, as fractions of the wall time, largest first."""
    lost = shares(seconds)
    lost["padding"] = lost.pop("compute") * (1.0 - valid_work_ratio)
    return dict(sorted(lost.items(), key=lambda item: -item[1]))


_OVERHEADS = {
    "start_up": ("start-up", "It happens once, so a longer run is affected less"),
    "compile": ("tracing and compiling", "It happens once, so a longer run is affected less"),
    "host": ("logging and other host work", "Raise saving.log_every"),
    "evaluation": ("evaluation", "Raise evaluation.evaluate_every"),
    "checkpoint": ("saving checkpoints", "Raise saving.save_every"),
    "padding": ("padding", "Raise data.shape_count, so that shapes fit the clips better"),
}


def advice(
    seconds: dict[str, float],
    valid_work_ratio: float,
    remedy_for_waiting: str,
    compilations_after_warmup: int,
) -> list[str]:
    """Name the largest overhead and what to change about it."""
    largest, share = next(iter(overheads(seconds, valid_work_ratio).items()))
    if largest == "compile" and compilations_after_warmup:
        return [
            f"Most time not spent training: compiling ({share:.1%}). The step was compiled "
            f"{compilations_after_warmup} times after warm-up. With data.batching bucketed or "
            "fixed it is compiled before the first step only."
        ]
    waiting = "waiting for data", remedy_for_waiting[:1].upper() + remedy_for_waiting[1:]
    name, remedy = _OVERHEADS.get(largest, waiting)
    return [f"Most time not spent training: {name} ({share:.1%}). {remedy}."]
