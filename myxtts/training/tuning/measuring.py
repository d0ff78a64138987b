"""Measures the real training step on real batches, and loading them. Nothing is trained."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.batch import Batch, BatchLoader
from myxtts.data.corpus import Corpus, CorpusPart
from myxtts.data.pipeline import AcousticSource
from myxtts.data.schedule import PlannedBatch
from myxtts.devices.machine import Memory, read_memory, read_peak_memory_mb
from myxtts.devices.strategy import devices_here
from myxtts.training.acoustic import AcousticTask
from myxtts.training.optimizer import FlatAdamW
from myxtts.training.step import compile_training_step
from myxtts.training.tuning.deciding import LoadTimes

# How many batches of an epoch to scan for the largest and the most frequent shape.
_BATCHES_SCANNED = 5_000
_LEAST_SECONDS = 0.3
# On CPUs, batches stop growing when the next would use more than this fraction of free memory.
_SHARE_OF_FREE_MEMORY = 0.5


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
        """Per step; short steps are repeated to average out timer resolution and other load."""
        steps, gone, started = 0, 0.0, time.perf_counter()
        with self._strategy.scope():
            while gone < _LEAST_SECONDS:
                self._step(batch, tf.constant(False)).loss.numpy()
                steps, gone = steps + 1, time.perf_counter() - started
        return gone / steps

    def frame_rate(self, work: Workload) -> float:
        """Real mel frames per second over the epoch that `work` represents."""
        frames = seconds = 0.0
        for batch, share in (
            (work.typical, 1.0 - work.share_of_largest),
            (work.largest, work.share_of_largest),
        ):
            frames += share * float(tf.reduce_sum(batch.mel_lengths))
            seconds += share * self.seconds(batch)
        return frames / seconds


class MemoryGuard:
    """Predicts the memory of the next batch on CPUs; GPUs raise an error themselves."""

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        read_peak_mb: Callable[[], int] = read_peak_memory_mb,
        read_memory: Callable[[], Memory] = read_memory,
    ) -> None:
        """Tests pass the readings of another machine."""
        self._on_cpu = all(device.startswith("CPU") for device in devices_here(strategy))
        self._read_peak_mb = read_peak_mb
        self._read_memory = read_memory
        self._before = read_peak_mb()
        self._mb_per_frame = 0.0

    def require_room_for(self, frames: int) -> None:
        """Raises the error that a GPU would raise, before the machine runs out of memory."""
        if not self._on_cpu:
            return
        predicted_mb = self._mb_per_frame * frames
        if predicted_mb > _SHARE_OF_FREE_MEMORY * self._read_memory().free_mb:
            raise tf.errors.ResourceExhaustedError(
                None, None, f"{frames} frames would take {predicted_mb:.0f} MB"
            )

    @contextlib.contextmanager
    def watching(self, frames: int) -> Iterator[None]:
        """Updates the estimate with the peak memory of a batch of this many frames."""
        yield
        growth_mb = self._read_peak_mb() - self._before
        self._mb_per_frame = max(self._mb_per_frame, growth_mb / frames)


def time_loading(source: AcousticSource, threads: int, first_step: int, count: int) -> LoadTimes:
    """Loads the batches of `count` steps, computing features if a run would."""
    # A separate data device computes features one batch at a time.
    turns = threading.Lock() if source.has_own_device else contextlib.nullcontext()

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
