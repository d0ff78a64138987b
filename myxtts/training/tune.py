"""Measures candidate settings on this machine for a few minutes and recommends the best.

Candidates take turns in each round, and only measurements of the same round are compared. So other
load on the machine affects all candidates alike. Nothing is trained.
"""

from __future__ import annotations

import math
import os
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from myxtts.config.config import PRECISIONS, XTTSConfig
from myxtts.data.batch import Batch, BatchLoader
from myxtts.data.corpus import Corpus, CorpusPart, replanned
from myxtts.data.pipeline import AcousticSource
from myxtts.data.schedule import PlannedBatch
from myxtts.devices.machine import read_memory, read_peak_memory_mb
from myxtts.devices.memory import free_graphs, memory_for_tensors_mb
from myxtts.devices.strategy import devices_here, uses_xla
from myxtts.errors import DeviceError
from myxtts.training.acoustic import AcousticTask
from myxtts.training.optimizer import FlatAdamW
from myxtts.training.step import compile_training_step

# Batch sizes that leave fewer steps per epoch are not tried.
MIN_BATCHES_PER_EPOCH = 20
# A smaller difference may be noise and does not justify changing a setting.
NOISE = 0.03
# The smallest batch size to try: the learning rates of the presets are too high for fewer clips.
_MIN_BATCH = 4
# After two doublings of the batch size without this gain, larger ones are not tried.
_GAIN_WORTH_CLIMBING = 0.02
# A batch size below this fraction of the best rate is not measured more precisely.
_PROMISING = 0.85
# Loading should be this many times as fast as training, which competes for the cores.
_HEADROOM = 2.0
_STALLS_COVERED = 4
# Fraction of free memory for prefetched batches.
BUFFER_SHARE_OF_MEMORY = 0.125
# How many batches of an epoch to scan for the largest and the most frequent shape.
_BATCHES_SCANNED = 5_000
_MIN_SECONDS = 0.3
# On CPUs, batches stop growing when the next would use more than this fraction of free memory.
_SHARE_OF_FREE_MEMORY = 0.5
# Fraction of the time limit for batch sizes.
_BATCH_SIZE_SHARE = 0.45
# With fewer rounds, one moment of other load could skew the median.
_MIN_ROUNDS, _MAX_ROUNDS = 3, 6
_LOADING_ROUNDS = 3
_BATCHES_PER_THREAD = 8
_MAX_THREADS = 16
# Measured XLA compile time per shape over tracing time; used to skip what would take too long.
_COMPILING_OVER_TRACING = 3.0
# A candidate with less than this relative speed is dropped early.
_HOPELESS = 0.67

# what is being measured, elapsed seconds, time limit in seconds
OnProgress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Recommendation:
    setting: str
    """Setting with its section, such as data.batch_size."""
    now: Any
    recommended: Any
    worth: str

    @property
    def changes(self) -> bool:
        return bool(self.now != self.recommended)


@dataclass(frozen=True)
class Tuning:
    recommendations: list[Recommendation]
    skipped: list[str]
    """Candidates that were not measured for lack of time or memory."""
    measurements: dict[str, Any]


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

    def __str__(self) -> str:
        is_uncertain = abs(self.median - 1.0) > NOISE and not (self.is_faster or self.is_slower)
        doubt = f" ({self.low:.2f} to {self.high:.2f}, too uncertain)" if is_uncertain else ""
        return f"{self.median:.2f} x{doubt}"


def compare(values: Sequence[float], others: Sequence[float]) -> Speed:
    """Compare two lists of rates, round by round."""
    ratios = sorted(value / other for value, other in zip(values, others, strict=True))
    outside = (len(ratios) - 1) // 4
    return Speed(statistics.median(ratios), ratios[outside], ratios[-1 - outside])


class LoadTimes(NamedTuple):
    """Measurements of loading with one number of threads."""

    rates: Sequence[float]
    """Batches per second, one for each round."""
    slowest_seconds: float


def batch_sizes_to_try(now: int, replicas: int, clips: int) -> list[int]:
    """Return doublings that divide into the replicas and leave several batches per epoch."""
    size = replicas
    while size < _MIN_BATCH:
        size *= 2
    sizes = {now}
    while size <= clips // MIN_BATCHES_PER_EPOCH:
        sizes.add(size)
        size *= 2
    return sorted(sizes)


def climb(
    sizes: Sequence[int],
    now: int,
    measure: Callable[[int], float | None],
    has_time_for: Callable[[int], bool],
) -> dict[int, float]:
    """Measure ever larger batches until memory or time runs out or nothing is gained.

    `measure` returns real mel frames per second, or None if memory runs out.
    """
    rates: dict[int, float] = {}
    without_gain, best = 0, 0.0
    for size in sizes:
        if size > now and (without_gain >= 2 or not has_time_for(size)):
            break
        rate = measure(size)
        if rate is None:
            break
        rates[size] = rate
        without_gain = 0 if rate > (1.0 + _GAIN_WORTH_CLIMBING) * best else without_gain + 1
        best = max(best, rate)
    return rates


def choose_batch(
    rates: Mapping[int, Sequence[float]], now: int, accumulation: int = 1
) -> list[Recommendation]:
    """Recommend the smallest batch that is as fast as the fastest, within the noise.

    Larger batches would make fewer updates from the same clips and gain nothing. Where memory
    forces the choice, or gradients are accumulated already, a step keeps its clips: the
    accumulation steps change with the batch.
    """
    reference = rates[now] if now in rates else next(iter(rates.values()))
    speeds = {size: compare(values, reference) for size, values in rates.items()}
    best = max(speed.median for speed in speeds.values())
    chosen = min(size for size in rates if speeds[size].median >= (1.0 - NOISE) * best)
    if now in rates and chosen > now and not speeds[chosen].is_faster:
        chosen = now
    clips_per_step, steps = now * accumulation, accumulation
    if now not in rates or accumulation > 1:
        steps = max(1, round(clips_per_step / chosen))
    tried = ", ".join(map(str, rates))
    if chosen == now:
        worth = f"fastest, or as fast as larger ones; tried: {tried}"
    elif now not in rates:
        worth = f"the current one does not fit into memory; tried: {tried}"
    else:
        updates = clips_per_step / (chosen * steps)
        worth = (
            f"{speeds[chosen].median:.2f} x the frames per second, {updates:.3g} x the updates "
            "from the same clips"
        )
    found = [Recommendation("data.batch_size", now, chosen, worth)]
    if steps != accumulation:
        worth = f"{chosen * steps} clips in a step, as {clips_per_step} now"
        setting = "training.gradient_accumulation_steps"
        found.append(Recommendation(setting, accumulation, steps, worth))
    return found


def choose_precision(speeds: Mapping[str, Speed], now: str) -> Recommendation:
    """Recommend the fastest type, by the steps per second of the others over the current one.

    float16 needs loss scaling, so it has to be faster than bfloat16.
    """
    chosen, best = now, 1.0
    for name in ("float32", "bfloat16", "float16"):
        speed = speeds.get(name)
        if speed is not None and speed.is_faster and speed.median > (1.0 + NOISE) * best:
            chosen, best = name, speed.median
    worth = "not compared"
    if chosen != now:
        worth = f"{best:.2f} x the steps per second"
    elif speeds:
        others = ", ".join(f"{name} {speed}" for name, speed in speeds.items())
        worth = f"steps per second of the others: {others}"
    return Recommendation("training.precision", now, chosen, worth)


def choose_xla(
    speed: Speed, now: bool, *, seconds_without: float, compile_seconds: float, total_steps: int
) -> Recommendation:
    """Recommend XLA if compiling all shapes pays off within the first half of the run."""
    worth = f"with XLA {speed} the steps per second after {compile_seconds:.0f} s of compiling"
    if not speed.is_faster:
        # If it is not slower either, the current choice stays.
        return Recommendation("training.xla", now, now and not speed.is_slower, worth)
    saved = seconds_without * (1.0 - 1.0 / speed.median)
    steps_to_pay = math.ceil(compile_seconds / saved)
    worth += f", worth it after {steps_to_pay:,} steps; the run has {total_steps:,} steps"
    return Recommendation("training.xla", now, steps_to_pay <= total_steps // 2, worth)


def choose_workers(
    times: Mapping[int, LoadTimes], now: int | None, *, cores: int, steps_per_second: float
) -> Recommendation:
    """Keep the current number, unless it is too slow for the step and another is faster."""
    setting = "data.workers"
    present = max((count for count in times if count <= (now or cores)), default=min(times))
    rate = statistics.median(times[present].rates)
    enough = f"loads batches {rate / steps_per_second:,.3g} x as fast as they are trained on"
    if rate >= _HEADROOM * steps_per_second:
        return Recommendation(setting, now, now, enough)
    gains = {count: compare(it.rates, times[present].rates) for count, it in times.items()}
    best = max(gain.median for gain in gains.values())
    chosen = min(count for count, gain in gains.items() if gain.median >= (1.0 - NOISE) * best)
    if not gains[chosen].is_faster:
        return Recommendation(setting, now, now, f"{enough}; other numbers are no faster")
    worth = f"{gains[chosen].median:.2f} x the batches per second"
    return Recommendation(setting, now, chosen, worth)


def choose_buffer_size(
    stall_seconds: float,
    now: int,
    *,
    workers: int,
    step_seconds: float,
    batch_mb: float,
    free_mb: float | None,
) -> Recommendation:
    """Recommend enough batches to cover the slowest load several times over, within memory.

    A larger buffer does no harm, so the current size stays if it fits.
    """
    setting = "data.buffer_size"
    needed = max(2 * workers, math.ceil(_STALLS_COVERED * stall_seconds / step_seconds))
    if free_mb is not None:
        fits = max(1, int(BUFFER_SHARE_OF_MEMORY * free_mb / batch_mb))
        if now > fits:
            share = f"{BUFFER_SHARE_OF_MEMORY:.1%} of free memory"
            worth = f"{fits} batches of up to {batch_mb:.3g} MB use {share}"
            return Recommendation(setting, now, fits, worth)
        needed = min(needed, fits)
    worth = (
        f"the slowest batch took {stall_seconds:.3g} s to load, the time of "
        f"{stall_seconds / step_seconds:.3g} steps; {needed} batches cover that"
    )
    return Recommendation(setting, now, max(now, needed), worth)


class Workload(NamedTuple):
    """Two batches that represent an epoch: one of the most frequent shape, one of the largest."""

    typical: Batch
    largest: Batch
    share_of_largest: float
    """Fraction of the batches of an epoch."""

    @property
    def largest_frames(self) -> int:
        """Padding included."""
        size, frames, _ = self.largest.mel.shape
        return int(size * frames)

    @property
    def largest_mb(self) -> float:
        return sum(tensor.dtype.size * tf.size(tensor).numpy() for tensor in self.largest) / 2**20


def workload(part: CorpusPart, loader: BatchLoader) -> Workload:
    count = min(part.schedule.batches_per_epoch, _BATCHES_SCANNED)
    planned: dict[Any, PlannedBatch] = {}
    shapes: Counter[Any] = Counter()
    for step in range(count):
        batch = part.schedule.batch_at(step)
        shapes[batch.shape] += 1
        planned.setdefault(batch.shape, batch)
    largest = max(shapes, key=lambda shape: shape.batch * shape.frames * shape.tokens)
    (typical, _), *_ = shapes.most_common(1)
    typical_batch, largest_batch = (
        Batch(*map(tf.convert_to_tensor, loader.load(planned[shape])))
        for shape in (typical, largest)
    )
    return Workload(typical_batch, largest_batch, shapes[largest] / count)


class StepBench:
    """The compiled step of a separate model, run without updates.

    Its weights are not seeded: setting a seed would make TensorFlow rebuild all functions.
    """

    def __init__(
        self,
        config: XTTSConfig,
        corpus: Corpus,
        strategy: tf.distribute.Strategy,
        *,
        precision: str,
        xla: bool,
    ) -> None:
        self._strategy = strategy
        config = config.with_(precision=precision)
        training = config.training
        started = time.perf_counter()
        with strategy.scope():
            task = AcousticTask(config, corpus)
            task.build()
            optimizer = FlatAdamW(task.model.trainable_variables, training, 1)
            self._step = compile_training_step(
                task.objective, optimizer, task.signature(), training, xla=xla
            )
            self._step.get_concrete_function()
        self.trace_seconds = time.perf_counter() - started

    def seconds(self, batch: Batch) -> float:
        """Return the seconds of a step, averaged over enough steps for the timer and other load."""
        steps, gone, started = 0, 0.0, time.perf_counter()
        with self._strategy.scope():
            while gone < _MIN_SECONDS:
                self._step(batch, tf.constant(False)).loss.numpy()
                steps, gone = steps + 1, time.perf_counter() - started
        return gone / steps

    def frame_rate(self, work: Workload) -> float:
        """Return real mel frames per second over the epoch that `work` represents."""
        frames = seconds = 0.0
        for batch, share in (
            (work.typical, 1.0 - work.share_of_largest),
            (work.largest, work.share_of_largest),
        ):
            frames += share * float(tf.reduce_sum(batch.mel_lengths))
            seconds += share * self.seconds(batch)
        return frames / seconds


def time_loading(source: AcousticSource, threads: int, first_step: int, count: int) -> LoadTimes:
    """Load the batches of `count` steps, computing features if a run would."""
    # A separate data device computes features one batch at a time.
    turns = threading.Lock() if source.has_own_device else nullcontext()

    def make(step: int) -> float:
        started = time.perf_counter()
        loaded = source.load(step)
        seconds = time.perf_counter() - started
        if source.computes_features:
            with turns:
                started = time.perf_counter()
                # Reading one value waits for the GPU.
                source.computed(loaded).mel[-1, -1, -1].numpy()
                seconds += time.perf_counter() - started
        return seconds

    started = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        slowest = max(pool.map(make, range(first_step, first_step + count)))
    return LoadTimes([count / (time.perf_counter() - started)], slowest)


class Tuner:
    """Compares one candidate at a time with the current settings, in alternating rounds."""

    def __init__(
        self,
        config: XTTSConfig,
        corpus: Corpus,
        strategy: tf.distribute.Strategy,
        *,
        data_device: str | None = None,
        seconds: float,
        on_progress: OnProgress = lambda what, gone, total: None,
    ) -> None:
        self._config = config
        self._corpus = corpus
        self._strategy = strategy
        self._data_device = data_device
        self._seconds = seconds
        self._on_progress = on_progress
        self._loader = BatchLoader(corpus.train.cache, corpus.tokenizer, config)
        self._xla_now = uses_xla(strategy, config.training.xla)
        self._skipped: list[str] = []
        self._measurements: dict[str, Any] = {}

    def run(self) -> Tuning:
        self._started = time.monotonic()
        # Without XLA one trace serves all batch sizes.
        self._say("tracing the training step")
        plain = self._bench(self._config.training.precision, xla=False)
        self._trace_seconds = plain.trace_seconds
        found = self._tune_batch(plain)
        batch_size = found[0].recommended
        part = self._part(batch_size)
        work = workload(part, self._loader)
        found += self._tune_loading(part, work, plain.seconds(work.typical))
        found += self._tune_step(plain, self._part(batch_size, xla=True), work)
        return Tuning(found, self._skipped, self._measurements)

    def _bench(self, precision: str, *, xla: bool) -> StepBench:
        return StepBench(self._config, self._corpus, self._strategy, precision=precision, xla=xla)

    def _part(self, batch_size: int, *, xla: bool = False) -> CorpusPart:
        config = self._config.with_(batch_size=batch_size)
        replicas = self._strategy.num_replicas_in_sync
        return replanned(self._corpus.train, config, replicas=replicas, xla=xla)

    def _tune_batch(self, bench: StepBench) -> list[Recommendation]:
        now = self._config.data.batch_size
        accumulation = self._config.training.gradient_accumulation_steps
        on_cpu = all(device.startswith("CPU") for device in devices_here(self._strategy))
        peak_before = read_peak_memory_mb()
        mb_per_frame = seconds_per_clip = 0.0
        works: dict[int, Workload] = {}

        def measure(size: int) -> float | None:
            nonlocal mb_per_frame, seconds_per_clip
            self._say(f"batches of {size} clips")
            try:
                works[size] = workload(self._part(size), self._loader)
                frames = works[size].largest_frames // accumulation
                # GPUs raise the error themselves; a CPU machine would run out of memory.
                predicted_mb = mb_per_frame * frames
                if on_cpu and predicted_mb > _SHARE_OF_FREE_MEMORY * read_memory().free_mb:
                    raise tf.errors.ResourceExhaustedError(None, None, "predicted")
                bench.frame_rate(works[size])  # the first run of a shape is slower
                growth_mb = read_peak_memory_mb() - peak_before
                mb_per_frame = max(mb_per_frame, growth_mb / frames)
                started = time.monotonic()
                rate = bench.frame_rate(works[size])
            except tf.errors.ResourceExhaustedError:
                self._skipped.append(f"batches of {size} clips: not enough memory")
                return None
            seconds_per_clip = (time.monotonic() - started) / size
            return rate

        def has_time_for(size: int) -> bool:
            # Two runs for the first measurement and some in alternating rounds.
            needed = (2 + _MIN_ROUNDS) * seconds_per_clip * size
            if needed < self._left(_BATCH_SIZE_SHARE):
                return True
            self._skipped.append(f"batches of {size} clips and more: not enough time")
            return False

        clips = len(self._corpus.train.cache) // accumulation
        sizes = batch_sizes_to_try(now, self._strategy.num_replicas_in_sync, clips)
        first_rates = climb(sizes, now, measure, has_time_for)
        if not first_rates:
            raise DeviceError(
                f"not enough memory even for batches of {sizes[0]} clips; leave out long clips "
                "with data.max_mel_frames, or use a smaller model.size"
            )
        best = max(first_rates.values())
        candidates = [it for it in first_rates if it == now or first_rates[it] > _PROMISING * best]
        rates: dict[int, list[float]] = {size: [] for size in candidates}
        for number in range(_MAX_ROUNDS):
            if number >= _MIN_ROUNDS and self._left(_BATCH_SIZE_SHARE) <= 0:
                break
            for size in candidates:
                self._say("comparing the best batch sizes")
                rates[size].append(bench.frame_rate(works[size]))
        self._measurements["frames_per_second"] = {
            f"{size} clips": statistics.median(values) for size, values in rates.items()
        }
        return choose_batch(rates, now, accumulation)

    def _tune_loading(
        self, part: CorpusPart, work: Workload, step_seconds: float
    ) -> list[Recommendation]:
        data, cores = self._config.data, os.cpu_count() or 1
        most = min(_MAX_THREADS, max(cores, data.workers or 1))
        readings: dict[int, list[LoadTimes]] = {it: [] for it in (1, 2, 4, 8, 16) if it <= most}
        source = AcousticSource(
            part, self._corpus.tokenizer, self._config, data_device=self._data_device
        )
        self._say("loading the first batch")
        time_loading(source, threads=1, first_step=0, count=1)  # compiles feature computation
        step = 0
        for _ in range(_LOADING_ROUNDS):
            for count in readings:
                self._say(f"loading with up to {max(readings)} threads")
                batches = _BATCHES_PER_THREAD * count
                readings[count].append(time_loading(source, count, step, batches))
                step += batches
        times = {
            count: LoadTimes([it.rates[0] for it in own], max(it.slowest_seconds for it in own))
            for count, own in readings.items()
        }
        self._measurements["batches_loaded_per_second"] = {
            str(count): statistics.median(loading.rates) for count, loading in times.items()
        }
        self._measurements["steps_per_second"] = 1.0 / step_seconds
        workers = choose_workers(
            times, data.workers, cores=cores, steps_per_second=1.0 / step_seconds
        )
        threads = min(workers.recommended or cores, max(times))
        # Memory of the device that holds prefetched batches.
        free_mb: int | None = read_memory().free_mb
        if self._data_device is not None and self._data_device.startswith("GPU:"):
            free_mb = memory_for_tensors_mb(int(self._data_device.removeprefix("GPU:")))
        buffer_size = choose_buffer_size(
            times[max(count for count in times if count <= threads)].slowest_seconds,
            data.buffer_size,
            workers=threads,
            step_seconds=step_seconds,
            batch_mb=work.largest_mb,
            free_mb=free_mb,
        )
        return [workers, buffer_size]

    def _tune_step(
        self, plain: StepBench, part_for_xla: CorpusPart, work: Workload
    ) -> list[Recommendation]:
        """Compare XLA and precision, each with the current setting."""
        precision, xla = self._config.training.precision, self._xla_now
        present = plain
        about_xla = Recommendation("training.xla", xla, xla, "not compared")

        def recommend_xla(speed: Speed, seconds: float, compile_seconds: float) -> Recommendation:
            self._measurements["xla"] = {
                "speed": speed.median,
                "step_seconds_without": seconds,
                "compile_seconds_per_shape": compile_seconds,
            }
            return choose_xla(
                speed,
                xla,
                seconds_without=seconds,
                compile_seconds=compile_seconds * len(part_for_xla.plan.shapes),
                total_steps=part_for_xla.schedule.planned_steps(self._config.training),
            )

        if xla:
            # The step without XLA is traced already, so it is compared first.
            compiled = self._compile(precision, True, work)
            if compiled is None:
                return [choose_precision({}, precision), about_xla]
            present, compile_seconds = compiled
            about_xla = recommend_xla(*self._speed(present, plain, work), compile_seconds)
        speeds: dict[str, Speed] = {}
        for other in (name for name in PRECISIONS if name != precision):
            compared = self._compare(present, other, xla, work)
            if compared is not None:
                speeds[other], _, _ = compared
        if not xla:
            compared = self._compare(present, precision, True, work)
            if compared is not None:
                about_xla = recommend_xla(*compared)
        self._measurements["speed_of_precision"] = {precision: 1.0} | {
            name: speed.median for name, speed in speeds.items()
        }
        return [choose_precision(speeds, precision), about_xla]

    def _compare(
        self, present: StepBench, precision: str, xla: bool, work: Workload
    ) -> tuple[Speed, float, float] | None:
        """Return the speed relative to `present`, its seconds per step, seconds of compiling."""
        compiled = self._compile(precision, xla, work)
        if compiled is None:
            return None
        bench, compile_seconds = compiled
        return *self._speed(bench, present, work), compile_seconds

    def _compile(self, precision: str, xla: bool, work: Workload) -> tuple[StepBench, float] | None:
        """Return a separate step and the seconds of its first run, if time and memory allow."""
        what = f"{precision} {'with' if xla else 'without'} XLA"
        expected = self._trace_seconds * (1.0 + (_COMPILING_OVER_TRACING if xla else 0.0))
        if expected > self._left():
            self._skipped.append(f"{what}: would take about {expected:.0f} s to compile")
            return None
        self._say(f"compiling {what}")
        free_graphs()  # of the previous model, now and not during a measurement
        try:
            bench = self._bench(precision, xla=xla)
            return bench, bench.seconds(work.typical)
        except tf.errors.ResourceExhaustedError:
            self._skipped.append(f"{what}: not enough memory for two models at once")
            return None

    def _speed(self, one: StepBench, other: StepBench, work: Workload) -> tuple[Speed, float]:
        """Return the speed of one relative to the other, and the other's seconds per step."""
        seconds: list[float] = []
        seconds_of_other: list[float] = []
        for number in range(_MAX_ROUNDS):
            if number >= _MIN_ROUNDS and self._left() <= 0:
                break
            self._say("comparing both")
            seconds_of_other.append(other.seconds(work.typical))
            seconds.append(one.seconds(work.typical))
            if number and compare(seconds_of_other, seconds).high < _HOPELESS:
                break
        return compare(seconds_of_other, seconds), statistics.median(seconds_of_other)

    def _left(self, share: float = 1.0) -> float:
        """Return the seconds left of this share of the time limit."""
        return share * self._seconds - (time.monotonic() - self._started)

    def _say(self, what: str) -> None:
        self._on_progress(what, time.monotonic() - self._started, self._seconds)
