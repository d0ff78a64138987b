"""Measures candidate settings on this machine for a few minutes and recommends the best."""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from myxtts.config.config import PRECISIONS, XTTSConfig
from myxtts.data.batch import BatchLoader
from myxtts.data.corpus import Corpus, CorpusPart, replanned
from myxtts.data.pipeline import AcousticSource
from myxtts.devices.machine import read_memory
from myxtts.devices.memory import memory_for_tensors_mb
from myxtts.devices.strategy import uses_xla
from myxtts.errors import DeviceError
from myxtts.training.tuning.deciding import (
    BatchSetting,
    LoadTimes,
    Reading,
    Recommendation,
    Speed,
    XlaComparison,
    batch_sizes_to_try,
    choose_batch,
    choose_buffer_size,
    choose_precision,
    choose_workers,
    choose_xla,
    climb,
    compare,
    promising,
)
from myxtts.training.tuning.measuring import (
    MemoryGuard,
    StepBench,
    Workload,
    time_loading,
    workload,
)

# Fraction of the time limit for batch sizes.
_BATCH_SIZE_SHARE = 0.45
# With fewer rounds, one moment of other load could skew the median.
_FEWEST_ROUNDS, _MOST_ROUNDS = 3, 6
_LOADING_ROUNDS = 3
_BATCHES_PER_THREAD = 8
_MOST_THREADS = 16
# Measured XLA compile time per shape over tracing time; used to skip what would take too long.
_COMPILING_OVER_TRACING = 3.0
# A candidate with less than this relative speed is dropped early.
_HOPELESS = 0.67

# what is being measured, elapsed seconds, time limit in seconds
OnProgress = Callable[[str, float, float], None]


@dataclass(frozen=True)
class Tuning:
    recommendations: list[Recommendation]
    skipped: list[str]
    """Candidates that were not measured for lack of time or memory."""
    measurements: dict[str, Any]


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
        precision = self._config.training.precision
        # Without XLA one trace serves all batch sizes.
        self._say("tracing the training step")
        plain = StepBench(
            self._config, self._corpus, self._strategy, precision=precision, xla=False
        )
        self._trace_seconds = plain.trace_seconds
        found = self._tune_batch(plain)
        chosen = {item.setting: item.recommended for item in found}
        now = self._batch_now()
        batch = BatchSetting(
            chosen["data.batch_size"], chosen.get("data.frame_budget", now.frame_budget)
        )
        part, work = self._part(batch), self._workload(batch)
        found += self._tune_loading(part, work, plain.seconds(work.typical))
        found += self._tune_step(plain, self._part(batch, xla=True), work)
        return Tuning(found, self._skipped, self._measurements)

    def _batch_now(self) -> BatchSetting:
        return BatchSetting(self._config.data.batch_size, self._config.data.frame_budget)

    def _part(self, batch: BatchSetting, *, xla: bool = False) -> CorpusPart:
        config = self._config.with_(batch_size=batch.batch_size, frame_budget=batch.frame_budget)
        replicas = self._strategy.num_replicas_in_sync
        return replanned(self._corpus.train, config, replicas=replicas, xla=xla)

    def _workload(self, batch: BatchSetting) -> Workload:
        return workload(self._part(batch), self._loader)

    def _tune_batch(self, bench: StepBench) -> list[Recommendation]:
        now, guard = self._batch_now(), MemoryGuard(self._strategy)
        accumulation = self._config.training.gradient_accumulation_steps
        works: dict[BatchSetting, Workload] = {}
        seconds_per_clip = 0.0

        def measure(batch: BatchSetting) -> Reading | None:
            nonlocal seconds_per_clip
            self._say(f"batches of {batch.batch_size} clips")
            try:
                works[batch] = self._workload(batch)
                frames = works[batch].largest_frames // accumulation
                guard.require_room_for(frames)
                with guard.watching(frames):
                    bench.frame_rate(works[batch])  # the first run of a shape is slower
                started = time.monotonic()
                rate = bench.frame_rate(works[batch])
            except tf.errors.ResourceExhaustedError:
                self._skipped.append(f"batches of {_describe(batch)}: not enough memory")
                return None
            seconds_per_clip = (time.monotonic() - started) / batch.batch_size
            return Reading(rate, frames)

        def has_time_for(size: int) -> bool:
            # Two runs for the first measurement and some in alternating rounds.
            has_time = (2 + _FEWEST_ROUNDS) * seconds_per_clip * size < self._left(
                _BATCH_SIZE_SHARE
            )
            if not has_time:
                self._skipped.append(f"batches of {size} clips and more: not enough time")
            return has_time

        replicas = self._strategy.num_replicas_in_sync
        sizes = batch_sizes_to_try(
            now.batch_size, replicas, len(self._corpus.train.cache) // accumulation
        )
        readings = climb(sizes, now, measure, has_time_for)
        if not readings:
            raise DeviceError(
                f"not enough memory even for batches of {sizes[0]} clips; leave out long clips "
                "with data.max_mel_frames, or use a smaller model.size"
            )
        candidates = promising(readings, now)
        rates: dict[BatchSetting, list[float]] = {batch: [] for batch in candidates}
        for number in range(_MOST_ROUNDS):
            if number >= _FEWEST_ROUNDS and self._left(_BATCH_SIZE_SHARE) <= 0:
                break
            for batch in candidates:
                self._say("comparing the best batch sizes")
                rates[batch].append(bench.frame_rate(works[batch]))
        self._measurements["frames_per_second"] = {
            _describe(batch): statistics.median(values) for batch, values in rates.items()
        }
        return choose_batch(rates, now, accumulation)

    def _tune_loading(
        self, part: CorpusPart, work: Workload, step_seconds: float
    ) -> list[Recommendation]:
        data, cores = self._config.data, os.cpu_count() or 1
        most = min(_MOST_THREADS, max(cores, data.workers or 1))
        counts = [count for count in (1, 2, 4, 8, 16) if count <= most]
        times: dict[int, list[LoadTimes]] = {count: [] for count in counts}
        source = AcousticSource(
            part, self._corpus.tokenizer, self._config, data_device=self._data_device
        )
        self._say("loading the first batch")
        time_loading(source, threads=1, first_step=0, count=1)  # compiles feature computation
        step = 0
        for _ in range(_LOADING_ROUNDS):
            for count in counts:
                self._say(f"loading with up to {max(counts)} threads")
                batches = _BATCHES_PER_THREAD * count
                times[count].append(time_loading(source, count, step, batches))
                step += batches
        merged = {
            count: LoadTimes(
                [reading.rates[0] for reading in readings],
                max(reading.slowest_seconds for reading in readings),
            )
            for count, readings in times.items()
        }
        self._measurements["batches_loaded_per_second"] = {
            str(count): statistics.median(loading.rates) for count, loading in merged.items()
        }
        self._measurements["steps_per_second"] = 1.0 / step_seconds
        workers = choose_workers(
            merged, data.workers, cores=cores, steps_per_second=1.0 / step_seconds
        )
        threads = min(workers.recommended or cores, max(merged))
        buffer_size = choose_buffer_size(
            merged[max(count for count in merged if count <= threads)],
            data.buffer_size,
            workers=threads,
            step_seconds=step_seconds,
            batch_mb=work.largest_mb,
            free_mb=self._free_mb_for_batches(),
        )
        return [workers, buffer_size]

    def _free_mb_for_batches(self) -> int | None:
        """Of the device that holds prefetched batches."""
        if self._data_device is not None and self._data_device.startswith("GPU:"):
            return memory_for_tensors_mb(int(self._data_device.removeprefix("GPU:")))
        return read_memory().free_mb

    def _tune_step(
        self, plain: StepBench, part_for_xla: CorpusPart, work: Workload
    ) -> list[Recommendation]:
        """XLA and precision, each compared with the current setting."""
        precision, xla = self._config.training.precision, self._xla_now
        present = plain
        with_xla: XlaComparison | None = None
        if xla:
            # The step without XLA is traced already, so it is compared first.
            compiled = self._compile(precision, True, work)
            if compiled is None:
                return [choose_precision({}, precision), choose_xla(None, xla)]
            present, compile_seconds = compiled
            speed, seconds = self._speed(present, plain, work)
            with_xla = self._xla_comparison(part_for_xla, speed, seconds, compile_seconds)
        speeds: dict[str, Speed] = {}
        for other in (name for name in PRECISIONS if name != precision):
            compared = self._compare(present, other, xla, work)
            if compared is not None:
                speeds[other], _, _ = compared
        if not xla:
            compared = self._compare(present, precision, True, work)
            if compared is not None:
                with_xla = self._xla_comparison(part_for_xla, *compared)
        self._measurements["speed_of_precision"] = {precision: 1.0} | {
            name: speed.median for name, speed in speeds.items()
        }
        return [choose_precision(speeds, precision), choose_xla(with_xla, xla)]

    def _compare(
        self, present: StepBench, precision: str, xla: bool, work: Workload
    ) -> tuple[Speed, float, float] | None:
        """Speed relative to the current choice, its seconds per step, seconds of compiling."""
        compiled = self._compile(precision, xla, work)
        if compiled is None:
            return None
        bench, compile_seconds = compiled
        return *self._speed(bench, present, work), compile_seconds

    def _compile(self, precision: str, xla: bool, work: Workload) -> tuple[StepBench, float] | None:
        """A separate step and the seconds of its first run; None without enough time or memory."""
        what = f"{precision} {'with' if xla else 'without'} XLA"
        expected = self._trace_seconds * (1.0 + (_COMPILING_OVER_TRACING if xla else 0.0))
        if expected > self._left():
            self._skipped.append(f"{what}: would take about {expected:.0f} s to compile")
            return None
        self._say(f"compiling {what}")
        gc.collect()  # frees the previous model now, not during a measurement
        try:
            bench = StepBench(
                self._config, self._corpus, self._strategy, precision=precision, xla=xla
            )
            return bench, bench.seconds(work.typical)
        except tf.errors.ResourceExhaustedError:
            self._skipped.append(f"{what}: not enough memory for two models at once")
            return None

    def _speed(self, one: StepBench, other: StepBench, work: Workload) -> tuple[Speed, float]:
        """Steps per second of one over those of the other, and the other's seconds per step."""
        seconds: list[float] = []
        seconds_of_other: list[float] = []
        for number in range(_MOST_ROUNDS):
            if number >= _FEWEST_ROUNDS and self._left() <= 0:
                break
            self._say("comparing both")
            seconds_of_other.append(other.seconds(work.typical))
            seconds.append(one.seconds(work.typical))
            if number and compare(seconds_of_other, seconds).high < _HOPELESS:
                break
        return compare(seconds_of_other, seconds), statistics.median(seconds_of_other)

    def _xla_comparison(
        self, part: CorpusPart, speed: Speed, seconds_without: float, compile_seconds: float
    ) -> XlaComparison:
        self._measurements["xla"] = {
            "speed": speed.median,
            "step_seconds_without": seconds_without,
            "compile_seconds_per_shape": compile_seconds,
        }
        return XlaComparison(
            speed=speed,
            seconds_without=seconds_without,
            compile_seconds=compile_seconds * len(part.plan.shapes),
            planned_steps=part.schedule.planned_steps(self._config.training),
        )

    def _left(self, share: float = 1.0) -> float:
        """Seconds left of this share of the time limit."""
        return share * self._seconds - (time.monotonic() - self._started)

    def _say(self, what: str) -> None:
        self._on_progress(what, time.monotonic() - self._started, self._seconds)


def _describe(batch: BatchSetting) -> str:
    bound = f", at most {batch.frame_budget} frames" if batch.frame_budget else ""
    return f"{batch.batch_size} clips{bound}"
