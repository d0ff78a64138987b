"""Prefetched batches for the model, made on the host or on a separate data device.

single-gpu-buffered   source -> tf.data, several workers -> buffer -> model device
multi-gpu             source -> tf.data -> features on the data device -> buffer -> model device

A `BatchSource` loads and computes the batch of a step, `Feed` decides when, how many and where.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.batch import (
    Augmentation,
    BatchLoader,
    batch_signature,
    compile_features,
    waveform_signature,
)
from myxtts.data.corpus import CorpusPart
from myxtts.data.workers import worker_count
from myxtts.devices.machine import read_memory
from myxtts.devices.memory import memory_for_tensors_mb
from myxtts.errors import DeviceError, MyXTTSError
from myxtts.text.tokenizer import Tokenizer

HOST = "CPU:0"
SINGLE_GPU, MULTI_GPU = "single-gpu-buffered", "multi-gpu"
# On the model device, in addition to the current batch.
_BATCHES_ON_MODEL_DEVICE = 2
# With fewer batches the model would soon wait for the data device.
_BATCHES_BEFORE_MODEL = 4
# Number of steps between adjustments of the buffer size.
WINDOW_STEPS = 100
_MIN_BUFFER = 4
# If a buffer this much larger still runs empty, the source is too slow; more space does not help.
_MAX_GROWTH = 4
_SECONDS_TO_END = 10.0
# Share of free memory for batches; on the host half of it, as features are cached there too.
_MEMORY_SHARE = 0.25

Item = TypeVar("Item")


class BatchSource(abc.ABC):
    """A source that loads the arrays of a step, in any thread, and computes the batch from them.

    In multi-worker training each worker loads its own part of every batch.
    """

    computes_features: bool
    """Whether `features` must be applied to the result of `load`."""
    largest_batch_bytes: int

    def __init__(
        self,
        part: CorpusPart,
        config: XTTSConfig,
        *,
        data_device: str | None = None,
        worker: int = 0,
        workers: int = 1,
    ) -> None:
        self.device = data_device or HOST
        """The device where features are computed."""
        self.has_own_device = data_device is not None
        self.cache = part.cache
        self._schedule = part.schedule
        self._config = config
        self._place = worker, workers

    @property
    @abc.abstractmethod
    def signature(self) -> Any:
        """Tensor specs of the result of `load`."""

    @abc.abstractmethod
    def load(self, step: int) -> Any: ...

    @abc.abstractmethod
    def _compile_features(self) -> Callable[[Any], Any]: ...

    @functools.cached_property
    def features(self) -> Callable[[Any], Any]:
        """Compiled function from the result of `load` to a batch; runs on the caller's device."""
        return self._compile_features()

    def computed(self, loaded: Any) -> Any:
        """Apply `features` on `device`."""
        with tf.device(self.device):
            return self.features(loaded)


class AcousticSource(BatchSource):
    """Texts with cached mels, or with mels computed from cached samples.

    Mels are computed if there is a data device or augmentation.
    """

    def __init__(
        self,
        part: CorpusPart,
        tokenizer: Tokenizer,
        config: XTTSConfig,
        *,
        data_device: str | None = None,
        worker: int = 0,
        workers: int = 1,
    ) -> None:
        super().__init__(part, config, data_device=data_device, worker=worker, workers=workers)
        self.computes_features = self.has_own_device or Augmentation(config).is_on
        reference_frames, n_mels = config.model.reference_frames, config.data.n_mels
        self.largest_batch_bytes = max(
            4 * shape.batch * ((shape.frames + reference_frames) * n_mels + shape.tokens)
            for shape in part.plan.shapes
        )
        self._loader = BatchLoader(part.cache, tokenizer, config)

    @property
    def signature(self) -> Any:
        return waveform_signature() if self.computes_features else batch_signature(self._config)

    def load(self, step: int) -> Any:
        planned = self._schedule.batch_at(step)
        if not self.computes_features:
            return self._loader.load(planned.part(*self._place))
        changes = self._loader.changes(step, planned).part(*self._place)
        return self._loader.load_waveforms(planned.part(*self._place), changes)

    def _compile_features(self) -> Callable[[Any], Any]:
        return compile_features(self._config, self.cache.mel_mean)


class Feed:
    """Iterator over the batches of a run. Call `start` first and `close` at the end."""

    def __init__(
        self,
        source: BatchSource,
        config: XTTSConfig,
        last_step: int,
        *,
        model_device: str = HOST,
    ) -> None:
        self.mode = MULTI_GPU if source.has_own_device else SINGLE_GPU
        self.data_device = source.device
        self.model_device = model_device
        self._source = source
        self._config = config
        self._last_step = last_step
        self._threads = max(1, worker_count(config.data.workers, last_step))
        room = self._room_for_batches()
        batch_bytes = source.largest_batch_bytes
        self.buffer_size = initial_size(config.data.buffer_size, self._threads, room, batch_bytes)
        max_size = self.buffer_size if room is None else room // batch_bytes
        self._adaptive_size = AdaptiveSize(self.buffer_size, self._threads, max_size)
        self._problem: Exception | None = None
        self._closing = contextlib.ExitStack()
        self._is_first = True

    def start(self, first_step: int) -> None:
        # How many batches `wait_until_ready` waits for.
        self.batches_before_model = min(
            _BATCHES_BEFORE_MODEL, self.buffer_size, self._last_step - first_step
        )
        self._started_at = time.monotonic()
        self._buffer = Buffer(self._batches(first_step), self.buffer_size, "batches")
        self._nearest = self._buffer
        if self.model_device != self.data_device:
            moved = _moved(self._buffer, self.model_device)
            self._nearest = Buffer(moved, _BATCHES_ON_MODEL_DEVICE, "batches on model device")
            self._closing.callback(self._nearest.close)
        self._closing.callback(self._buffer.close)
        # Stop both first, so that neither makes another batch.
        self._closing.callback(self._nearest.stop)

    def wait_until_ready(self, delay_seconds: float) -> tuple[float, int]:
        """Wait `delay_seconds` from the start and for the first batches.

        Return how long that took and how many batches there are then, including those that are
        on the model device already.
        """
        with self._unwrapped_errors():
            self._buffer.wait_until_made(self.batches_before_model)
            time.sleep(max(0.0, self._started_at + delay_seconds - time.monotonic()))
            ready = self._buffer.wait_until_made(self.batches_before_model)
        return time.monotonic() - self._started_at, ready

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Pause loading inside this context; use it after `start`."""
        # Pause the last stage first: it may be waiting for a batch of the other.
        with self._nearest.paused(), self._buffer.paused():
            yield

    def __next__(self) -> Any:
        ready, waits = len(self._buffer), len(self._nearest) == 0
        with self._unwrapped_errors():
            batch = next(self._nearest)
        if not self._is_first:
            # Waiting for the first batch is normal.
            self._buffer.size = self._adaptive_size.after_step(ready, waits)
        self._is_first = False
        return batch

    def remedy_for_waiting(self) -> str:
        """Return what to change if the model waits for data."""
        if not self._adaptive_size.source_is_slow:
            return "raise data.buffer_size: loading is fast enough on average but uneven"
        if self.mode == MULTI_GPU:
            return "the data device is slower than the model: omit --data-gpu, or augment less"
        if self._source.computes_features:
            return (
                "computing augmented features is slower than the model: raise data.workers, reduce "
                "augmentation.*, or compute features on a GPU with --data-gpu and --model-gpu"
            )
        return (
            "loading is slower than the model: raise data.workers, or put data.cache_dir on a "
            "faster disk"
        )

    @property
    def ready_batches(self) -> int:
        """Number of batches in the buffer now."""
        return len(self._buffer)

    @property
    def present_buffer_size(self) -> int:
        return self._adaptive_size.size

    def take_buffer_change(self) -> str | None:
        """Return the latest change of the buffer size that was not returned before."""
        change, self._adaptive_size.change = self._adaptive_size.change, None
        return change

    def close(self) -> None:
        self._closing.close()

    def _batches(self, first_step: int) -> Iterator[Any]:
        """Return lazy batches: nothing is computed before the first one is requested."""
        signature = self._source.signature
        specs = tf.nest.flatten(signature)

        def load(step: np.int64) -> list[Any]:
            try:
                return tf.nest.flatten(self._source.load(int(step)))
            except (MyXTTSError, OSError, MemoryError) as error:
                self._problem = error
                raise

        def load_in_graph(step: tf.Tensor) -> Any:
            tensors = tf.numpy_function(load, [step], [spec.dtype for spec in specs])
            shaped = [
                tf.ensure_shape(tensor, spec.shape)
                for tensor, spec in zip(tensors, specs, strict=True)
            ]
            return tf.nest.pack_sequence_as(signature, shaped)

        in_order = {"num_parallel_calls": self._threads, "deterministic": True}
        dataset = tf.data.Dataset.range(first_step, self._last_step).map(load_in_graph, **in_order)
        if self._source.computes_features and self.mode == SINGLE_GPU:
            dataset = dataset.map(self._source.features, **in_order)
        options = tf.data.Options()
        # A separate thread pool: the threads of the step are busy.
        options.threading.private_threadpool_size = self._threads
        dataset = dataset.prefetch(self._threads).with_options(options)
        # Never read past the end of a tf.data iterator: the end is an error status that can fail
        # concurrent operations of other threads.
        source = itertools.islice(dataset, self._last_step - first_step)
        return map(self._source.computed, source) if self.mode == MULTI_GPU else source

    @contextlib.contextmanager
    def _unwrapped_errors(self) -> Iterator[None]:
        """Raise the original error that tf.data wraps in its own."""
        try:
            yield
        except tf.errors.OpError as error:
            if self._problem is not None:
                raise self._problem from None
            raise DeviceError(
                f"making batches on {self.data_device} failed: {error.message.splitlines()[0]}"
            ) from error

    def _room_for_batches(self) -> int | None:
        """Return the bytes available for the buffer; None if unknown."""
        if self.data_device.startswith("GPU"):
            memory_mb = memory_for_tensors_mb(int(self.data_device.removeprefix("GPU:")))
            return None if memory_mb is None else int(memory_mb * _MEMORY_SHARE) << 20
        return int((read_memory().free_mb << 20) * _MEMORY_SHARE) // 2


def _moved(batches: Iterator[Any], device: str) -> Iterator[Any]:
    """Move batches to a device. Integers stay on the host, where functions expect them."""

    def move(tensor: tf.Tensor) -> tf.Tensor:
        return tf.identity(tensor) if tensor.dtype.is_floating else tensor

    for batch in batches:
        with tf.device(device):
            moved = tf.nest.map_structure(move, batch)
        yield moved


def initial_size(wanted: int, workers: int, room_bytes: int | None, batch_bytes: int) -> int:
    """Return the configured size, at least one batch per worker, no more than fits memory."""
    size = max(wanted, workers)
    if room_bytes is not None:
        size = min(size, max(1, room_bytes // batch_bytes))
    return size


class AdaptiveSize:
    """Size of the buffer: doubles if the model waited, halves if it stayed more than half full.

    Once it has grown, it does not shrink again. If the buffer was not full between two waits, the
    source is slower than the model; otherwise it is only uneven.
    """

    def __init__(self, size: int, workers: int, max_size: int) -> None:
        self.size = size
        self._min = min(size, max(_MIN_BUFFER, 2 * workers))
        self._max = max(size, min(max_size, _MAX_GROWTH * size))
        self._steps = self._waits = 0
        self._lowest_fill = size
        self._has_grown = False
        self.change: str | None = None
        """The last change of the size and its reason, until it is announced."""
        self._was_full = False
        self._waits_after_full = self._waits_without = 0

    @property
    def source_is_slow(self) -> bool:
        return self._waits_without > self._waits_after_full

    def after_step(self, fill: int, waited: bool) -> int:
        """Return the next size; `fill` is the number of ready batches before taking one."""
        self._steps += 1
        self._waits += waited
        self._lowest_fill = min(self._lowest_fill, fill)
        self._was_full = self._was_full or fill >= self.size
        if waited:
            self._waits_after_full += self._was_full
            self._waits_without += not self._was_full
            self._was_full = False
        if self._steps < WINDOW_STEPS:
            return self.size
        before, waits, lowest = self.size, self._waits, self._lowest_fill
        if waits:
            self.size = min(2 * self.size, self._max)
        elif lowest > self.size // 2 and not self._has_grown:
            self.size = max(self.size // 2, self._min)
        if self.size != before:
            self._has_grown = self.size > before
            reason = (
                f"the model waited for data in {waits} of {WINDOW_STEPS} steps"
                if waits
                else f"at least {lowest} batches were always ready in {WINDOW_STEPS} steps"
            )
            self.change = f"Prefetch buffer: {self.size} batches instead of {before}, {reason}"
        self._steps = self._waits = 0
        self._lowest_fill = self.size
        return self.size


class Buffer(Generic[Item]):
    """A bounded buffer that prefetches up to `size` items of a source, in order, in a thread.

    An error of the source is raised immediately, even if items are left in the buffer. The size
    can be changed while the buffer is in use.
    """

    def __init__(self, source: Iterator[Item], size: int, name: str) -> None:
        self._source = source
        self._size = size
        self._items: deque[Item] = deque()
        self._made = 0
        self._changed = threading.Condition()
        # Reported if the thread is killed from outside.
        self._error: Exception | None = DeviceError(
            "the thread that makes batches ended unexpectedly; continue with --resume"
        )
        self._ended = self._closed = self._paused = self._making = False
        self._thread = threading.Thread(target=self._fill, name=name, daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        with self._changed:
            self._wait_until(lambda: bool(self._items))
            if self._closed or not self._items:
                raise StopIteration
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def __len__(self) -> int:
        return len(self._items)

    @property
    def size(self) -> int:
        return self._size

    @size.setter
    def size(self, size: int) -> None:
        with self._changed:
            self._size = size
            self._changed.notify_all()

    def wait_until_made(self, count: int) -> int:
        """Wait for the first `count` items, taken or not, or for the last one.

        Return how many were made so far; raise the source's error.
        """
        with self._changed:
            self._wait_until(lambda: self._made >= count)
            return self._made

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Make no item inside this context, after finishing one that was begun."""
        with self._changed:
            self._paused = True
            self._changed.wait_for(lambda: not self._making)
        try:
            yield
        finally:
            with self._changed:
                self._paused = False
                self._changed.notify_all()

    def stop(self) -> None:
        """Stop the thread, wake waiting consumers and drop all items."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Stop the thread and wait for it to end."""
        self.stop()
        self._thread.join(_SECONDS_TO_END)

    def _wait_until(self, is_time: Callable[[], bool]) -> None:
        while not (is_time() or self._ended or self._closed):
            self._changed.wait()
        if self._ended and self._error is not None:
            raise self._error

    def _fill(self) -> None:
        try:
            while self._begin() and self._put(next(self._source)):
                pass
            self._error = None
        except StopIteration:
            self._error = None
        except Exception as error:  # noqa: BLE001 - raised again where batches are taken
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._making = False
                self._changed.notify_all()

    def _begin(self) -> bool:
        """Wait while paused, and return whether the buffer is still open."""
        with self._changed:
            self._changed.wait_for(lambda: not self._paused or self._closed)
            self._making = not self._closed
            return self._making

    def _put(self, item: Item) -> bool:
        """Wait for space, and return whether the buffer is still open."""
        with self._changed:
            self._making = False
            self._changed.notify_all()
            while len(self._items) >= self._size and not self._closed:
                self._changed.wait()
            if not self._closed:
                self._items.append(item)
                self._made += 1
                self._changed.notify_all()
            return not self._closed
