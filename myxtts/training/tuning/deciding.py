"""Turns measurements into recommended settings. Does not know how they were measured.

Rates are lists with one entry per round. In each round the candidates take turns, and only rates of
the same round are compared, so that other load on the machine affects all candidates alike.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

# Larger batch sizes than leave this many steps per epoch are not tried.
FEWEST_BATCHES_PER_EPOCH = 20
# A smaller difference may be noise and does not justify changing a setting.
NOISE = 0.03
# The smallest batch size to try: the learning rates of the presets are too high for fewer clips.
_SMALLEST_BATCH = 4
# After two doublings of the batch size without this gain, larger ones are not tried.
_GAIN_WORTH_CLIMBING = 0.02
# Loading should be this many times as fast as training, which competes for the cores.
_HEADROOM = 2.0
_STALLS_COVERED = 4
# Fraction of free memory for prefetched batches.
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
    """A first, rough measurement of a batch size."""

    rate: float
    """Real mel frames per second."""
    largest_frames: int
    """Frames of the largest batch, padding included."""


class Speed(NamedTuple):
    """Relative speed of one choice over another: median and quartiles over the rounds."""

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
    """Ratios of values to others, round by round."""
    ratios = sorted(value / other for value, other in zip(values, others, strict=True))
    outside = (len(ratios) - 1) // 4
    return Speed(statistics.median(ratios), ratios[outside], ratios[-1 - outside])


@dataclass(frozen=True)
class XlaComparison:
    speed: Speed
    """Steps per second with XLA over those without it."""
    seconds_without: float
    """Per step."""
    compile_seconds: float
    """For all shapes."""
    planned_steps: int
    """Length of the run."""


@dataclass(frozen=True)
class LoadTimes:
    """Measurements of loading with one number of threads."""

    rates: Sequence[float]
    """Batches per second."""
    slowest_seconds: float


def batch_sizes_to_try(now: int, replicas: int, clips: int) -> list[int]:
    """Doublings that divide into the replicas and leave several batches per epoch."""
    size = replicas
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
    """Measures ever larger batches until memory or time runs out or nothing is gained.

    `measure` returns None if memory runs out. If only the batches of the longest clips are too
    large, a limit on their frames lets the others grow further.
    """
    readings: dict[BatchSetting, Reading] = {}
    budget, without_gain, best = now.frame_budget, 0, 0.0
    for size in sizes:
        if size > now.batch_size and (without_gain >= 2 or not has_time_for(size)):
            break
        reading = measure(BatchSetting(size, budget))
        # A limit must leave room for four of the longest clips.
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
    """Candidates for precise measurement: the current setting and all close to the best."""
    best = max(reading.rate for reading in readings.values())
    return [
        setting
        for setting, reading in readings.items()
        if reading.rate > 0.85 * best or setting == now
    ]


def choose_batch(
    rates: Mapping[BatchSetting, Sequence[float]], now: BatchSetting, accumulation: int = 1
) -> list[Recommendation]:
    """The smallest batch that is as fast as the fastest, within the noise.

    Larger batches would make fewer updates from the same clips and gain nothing. Where memory
    forces the choice, or gradients are accumulated already, a step keeps its clips: the
    accumulation steps change with the batch.
    """
    reference = rates[now] if now in rates else next(iter(rates.values()))
    speeds = {setting: compare(values, reference) for setting, values in rates.items()}
    best = max(speed.median for speed in speeds.values())
    fast = [setting for setting in rates if speeds[setting].median >= (1.0 - NOISE) * best]
    chosen = min(fast, key=lambda setting: setting.batch_size)
    if now in rates and chosen.batch_size > now.batch_size and not speeds[chosen].is_faster:
        chosen = now
    clips_per_step, steps = now.batch_size * accumulation, accumulation
    if now not in rates or accumulation > 1:
        steps = max(1, round(clips_per_step / chosen.batch_size))
    tried = ", ".join(str(setting.batch_size) for setting in rates)
    if chosen == now:
        worth = f"fastest, or as fast as larger ones; tried: {tried}"
    elif now not in rates:
        worth = f"the current one does not fit into memory; tried: {tried}"
    else:
        updates = clips_per_step / (chosen.batch_size * steps)
        worth = (
            f"{speeds[chosen].median:.2f} x the frames per second, {updates:.3g} x the updates "
            "from the same clips"
        )
    found = [Recommendation("data.batch_size", now.batch_size, chosen.batch_size, worth)]
    if steps != accumulation:
        found.append(
            Recommendation(
                "training.gradient_accumulation_steps",
                accumulation,
                steps,
                f"{chosen.batch_size * steps} clips in a step, as {clips_per_step} now",
            )
        )
    if chosen.frame_budget != now.frame_budget:
        found.append(
            Recommendation(
                "data.frame_budget",
                now.frame_budget,
                chosen.frame_budget,
                "keeps batches of the longest clips within memory",
            )
        )
    return found


def choose_precision(speeds: Mapping[str, Speed], now: str) -> Recommendation:
    """The fastest type; float16 needs loss scaling, so it has to be faster than bfloat16.

    `speeds` are the steps per second of other types over those of the current one.
    """
    chosen, best = now, 1.0
    for name in ("float32", "bfloat16", "float16"):
        speed = speeds.get(name)
        if speed is not None and speed.is_faster and speed.median > (1.0 + NOISE) * best:
            chosen, best = name, speed.median
    if chosen != now:
        worth = f"{best:.2f} x the steps per second"
    elif speeds:
        others = ", ".join(f"{name} {_shown(speed)}" for name, speed in speeds.items())
        worth = f"steps per second of the others: {others}"
    else:
        worth = "not compared"
    return Recommendation("training.precision", now, chosen, worth)


def _shown(speed: Speed) -> str:
    is_uncertain = abs(speed.median - 1.0) > NOISE and not (speed.is_faster or speed.is_slower)
    doubt = f" ({speed.low:.2f} to {speed.high:.2f}, too uncertain)" if is_uncertain else ""
    return f"{speed.median:.2f} x{doubt}"


def choose_xla(comparison: XlaComparison | None, now: bool) -> Recommendation:
    """Whether compiling pays off within the first half of the run."""
    setting = "training.xla"
    if comparison is None:
        return Recommendation(setting, now, now, "not compared")
    speed, compile_seconds = comparison.speed, comparison.compile_seconds
    worth = (
        f"with XLA {_shown(speed)} the steps per second after {compile_seconds:.0f} s of compiling"
    )
    if not speed.is_faster:
        # If it is not slower either, the current choice stays.
        return Recommendation(setting, now, now and not speed.is_slower, worth)
    saved = comparison.seconds_without * (1.0 - 1.0 / speed.median)
    steps_to_pay = math.ceil(compile_seconds / saved)
    worth += (
        f", worth it after {steps_to_pay:,} steps; the run has {comparison.planned_steps:,} steps"
    )
    return Recommendation(setting, now, steps_to_pay <= comparison.planned_steps // 2, worth)


def choose_workers(
    times: Mapping[int, LoadTimes], now: int | None, *, cores: int, steps_per_second: float
) -> Recommendation:
    """The current number, unless it is too slow for the step and another is faster."""
    setting = "data.workers"
    present = min(now or cores, max(times))
    if present not in times:
        present = max(count for count in times if count <= present)
    rate = statistics.median(times[present].rates)
    enough = f"loads batches {rate / steps_per_second:,.3g} x as fast as they are trained on"
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
    """Enough batches to cover the slowest load several times over, within memory.

    A larger buffer does no harm, so the current size stays if it fits.
    """
    stall = loading.slowest_seconds
    needed = max(2 * workers, math.ceil(_STALLS_COVERED * stall / step_seconds))
    most = None
    if free_mb is not None:
        most = max(1, int(BUFFER_SHARE_OF_MEMORY * free_mb / batch_mb))
    if most is not None and now > most:
        worth = (
            f"{most} batches of up to {batch_mb:.3g} MB use {BUFFER_SHARE_OF_MEMORY:.1%} of free "
            "memory"
        )
        return Recommendation("data.buffer_size", now, most, worth)
    chosen = max(now, needed if most is None else min(needed, most))
    worth = (
        f"the slowest batch took {stall:.3g} s to load, the time of {stall / step_seconds:.3g} "
        f"steps; {needed} batches cover that"
    )
    return Recommendation("data.buffer_size", now, chosen, worth)
