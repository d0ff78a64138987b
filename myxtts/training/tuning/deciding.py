"""From measurements to recommended settings. Knows nothing of how they were measured.

Rates come as lists with one entry per round, in which the candidates took turns: only what was
measured in the same round is compared, so that a busy moment of the machine hits all alike.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from myxtts.data.planning.recommendation import FEWEST_BATCHES_PER_EPOCH

# A difference below this may be noise, and is no reason to change a setting.
NOISE = 0.03
# Batches of this size are the smallest that are tried: the learning rates of the presets are too
# high for the gradients of fewer clips.
_SMALLEST_BATCH = 4
# Two doublings of the batch without this gain, and larger ones are not tried.
_GAIN_WORTH_CLIMBING = 0.02
# Loading should be this much faster than training, which takes the processors from it.
_HEADROOM = 2.0
_STALLS_COVERED = 4
# Of the free memory, for batches that are kept ready.
BUFFER_SHARE_OF_MEMORY = 0.125


@dataclass(frozen=True)
class Recommendation:
    setting: str
    """With its section, such as data.batch_size."""
    now: Any
    recommended: Any
    worth: str

    @property
    def changes(self) -> bool:
        return bool(self.now != self.recommended)


@dataclass(frozen=True)
class BatchSetting:
    batch_size: int
    frame_budget: int | None = None


@dataclass(frozen=True)
class Reading:
    """A first look at a batch size."""

    rate: float
    """Real mel frames per second."""
    largest_frames: int
    """Frames of the largest batch, padding included."""


class Speed(NamedTuple):
    """Of one choice over another: the median of the rounds, and the middle half of them."""

    median: float
    low: float
    high: float

    @property
    def is_faster(self) -> bool:
        return self.median > 1.0 + NOISE and self.low > 1.0

    @property
    def is_slower(self) -> bool:
        return self.median < 1.0 - NOISE and self.high < 1.0


def compare(values: Sequence[float], others: Sequence[float]) -> Speed:
    """Values over others, round by round."""
    ratios = sorted(value / other for value, other in zip(values, others, strict=True))
    outside = (len(ratios) - 1) // 4
    return Speed(statistics.median(ratios), ratios[outside], ratios[-1 - outside])


@dataclass(frozen=True)
class XlaComparison:
    speed: Speed
    """Steps per second with XLA over those without it."""
    seconds_without: float
    """Of a step."""
    compile_seconds: float
    """Of all shapes."""
    planned_steps: int
    """Of the run."""


@dataclass(frozen=True)
class LoadTimes:
    """Loading with one number of threads."""

    rates: Sequence[float]
    """Batches per second."""
    slowest_seconds: float


def batch_sizes_to_try(now: int, shares: int, clips: int) -> list[int]:
    """Powers of two that can be split among the shares and leave an epoch several batches."""
    size = shares
    while size < _SMALLEST_BATCH:
        size *= 2
    sizes = {now}
    while size <= clips // FEWEST_BATCHES_PER_EPOCH:
        sizes.add(size)
        size *= 2
    return sorted(sizes)


def climb(
    sizes: Sequence[int],
    now: BatchSetting,
    measure: Callable[[BatchSetting], Reading | None],
    has_time_for: Callable[[int], bool],
) -> dict[BatchSetting, Reading]:
    """First looks at ever larger batches, until memory or time is short or nothing is gained.

    `measure` gives None where memory is short. If only the batches of the longest clips are too
    large, a bound on their frames lets the others grow further.
    """
    readings: dict[BatchSetting, Reading] = {}
    budget, without_gain, best = now.frame_budget, 0, 0.0
    for size in sizes:
        if size > now.batch_size and (without_gain >= 2 or not has_time_for(size)):
            break
        reading = measure(BatchSetting(size, budget))
        # A bound must leave room for four of the longest clips, the step of batch sizes.
        if reading is None and budget is None and readings and size // 2 >= _SMALLEST_BATCH:
            budget = list(readings.values())[-1].largest_frames
            reading = measure(BatchSetting(size, budget))
        if reading is None:
            break
        readings[BatchSetting(size, budget)] = reading
        without_gain = 0 if reading.rate > (1.0 + _GAIN_WORTH_CLIMBING) * best else without_gain + 1
        best = max(best, reading.rate)
    return readings


def promising(readings: Mapping[BatchSetting, Reading], now: BatchSetting) -> list[BatchSetting]:
    """What is worth a closer look: the present setting and all that came near the best."""
    best = max(reading.rate for reading in readings.values())
    return [
        setting
        for setting, reading in readings.items()
        if reading.rate > 0.85 * best or setting == now
    ]


def choose_batch(
    rates: Mapping[BatchSetting, Sequence[float]], now: BatchSetting
) -> list[Recommendation]:
    """The smallest batch that is as fast as the fastest but for noise.

    Larger batches than that make fewer updates from the same clips and gain nothing for it.
    """
    reference = rates[now] if now in rates else next(iter(rates.values()))
    speeds = {setting: compare(values, reference) for setting, values in rates.items()}
    best = max(speed.median for speed in speeds.values())
    fast = [setting for setting in rates if speeds[setting].median >= (1.0 - NOISE) * best]
    chosen = min(fast, key=lambda setting: setting.batch_size)
    if now in rates and chosen.batch_size > now.batch_size and not speeds[chosen].is_faster:
        chosen = now
    tried = ", ".join(str(setting.batch_size) for setting in rates)
    if chosen == now:
        worth = f"the smallest of the fastest of {tried}"
    elif now not in rates:
        worth = f"the present one needs more memory than there is; tried: {tried}"
    else:
        updates = now.batch_size / chosen.batch_size
        worth = (
            f"{speeds[chosen].median:.2f} x the frames per second, {updates:.3g} x the updates "
            "from the same clips"
        )
    found = [Recommendation("data.batch_size", now.batch_size, chosen.batch_size, worth)]
    if chosen.frame_budget != now.frame_budget:
        found.append(
            Recommendation(
                "data.frame_budget",
                now.frame_budget,
                chosen.frame_budget,
                "keeps the batches of the longest clips within the memory",
            )
        )
    return found


def choose_precision(speeds: Mapping[str, Speed], now: str) -> Recommendation:
    """The fastest type; float16 needs a loss scale, so it has to be faster than bfloat16.

    `speeds` are the steps per second of other types over those of the present one.
    """
    chosen, best = now, 1.0
    for name in ("float32", "bfloat16", "float16"):
        speed = speeds.get(name)
        if speed is not None and speed.is_faster and speed.median > (1.0 + NOISE) * best:
            chosen, best = name, speed.median
    if chosen != now:
        worth = f"{best:.2f} x the steps per second"
    elif speeds:
        others = ", ".join(f"{_shown(speed)} with {name}" for name, speed in speeds.items())
        worth = f"the steps per second would be {others}"
    else:
        worth = "not compared"
    return Recommendation("training.precision", now, chosen, worth)


def _shown(speed: Speed) -> str:
    is_uncertain = abs(speed.median - 1.0) > NOISE and not (speed.is_faster or speed.is_slower)
    doubt = f" ({speed.low:.2f} to {speed.high:.2f}, too uncertain)" if is_uncertain else ""
    return f"{speed.median:.2f} x{doubt}"


def choose_xla(comparison: XlaComparison | None, now: bool) -> Recommendation:
    """Whether compiling pays: faster steps, and soon enough that the run has most of them."""
    setting = "training.xla"
    if comparison is None:
        return Recommendation(setting, now, now, "not compared")
    speed, compile_seconds = comparison.speed, comparison.compile_seconds
    worth = (
        f"with XLA {_shown(speed)} the steps per second after {compile_seconds:.0f} s of compiling"
    )
    if not speed.is_faster:
        # Where it is not slower either, what is compiled stays so.
        return Recommendation(setting, now, now and not speed.is_slower, worth)
    saved = comparison.seconds_without * (1.0 - 1.0 / speed.median)
    steps_to_pay = math.ceil(compile_seconds / saved)
    worth += f", paid back after {steps_to_pay:,} steps; the run has {comparison.planned_steps:,}"
    return Recommendation(setting, now, steps_to_pay <= comparison.planned_steps // 2, worth)


def choose_workers(
    times: Mapping[int, LoadTimes], now: int | None, *, cores: int, steps_per_second: float
) -> Recommendation:
    """The present number unless it is too slow for the step and another one is faster."""
    setting = "data.workers"
    present = min(now or cores, max(times))
    if present not in times:
        present = max(count for count in times if count <= present)
    rate = statistics.median(times[present].rates)
    enough = f"loads {rate / steps_per_second:,.3g} x as fast as the step trains"
    if rate >= _HEADROOM * steps_per_second:
        return Recommendation(setting, now, now, enough)
    gains = {
        count: compare(loading.rates, times[present].rates) for count, loading in times.items()
    }
    best = max(gain.median for gain in gains.values())
    chosen = min(count for count, gain in gains.items() if gain.median >= (1.0 - NOISE) * best)
    gain = gains[chosen]
    if not gain.is_faster:
        return Recommendation(setting, now, now, f"{enough}; other numbers are no faster")
    return Recommendation(setting, now, chosen, f"{gain.median:.2f} x the batches per second")


def choose_buffer_size(
    loading: LoadTimes,
    now: int,
    *,
    workers: int,
    step_seconds: float,
    batch_mb: float,
    free_mb: float | None,
) -> Recommendation:
    """Enough to train through the slowest load several times over, within the memory.

    A larger buffer than needed does no harm, so it stays where it fits.
    """
    stall = loading.slowest_seconds
    needed = max(2 * workers, math.ceil(_STALLS_COVERED * stall / step_seconds))
    most = None
    if free_mb is not None:
        most = max(1, int(BUFFER_SHARE_OF_MEMORY * free_mb / batch_mb))
    if most is not None and now > most:
        worth = (
            f"{most} batches of up to {batch_mb:.3g} MB are {BUFFER_SHARE_OF_MEMORY:.1%} of the "
            "free memory"
        )
        return Recommendation("data.buffer_size", now, most, worth)
    chosen = max(now, needed if most is None else min(needed, most))
    worth = (
        f"the slowest load took {stall:.3g} s, {stall / step_seconds:.3g} steps; {needed} batches "
        "cover that"
    )
    return Recommendation("data.buffer_size", now, chosen, worth)
