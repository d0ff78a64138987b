"""Feeds the model with prefetched batches, made on the host or on a separate data device.

single-gpu-buffered   source -> tf.data, several workers -> buffer -> model device
multi-gpu             source -> tf.data -> features on the data device -> buffer -> model device

Knows nothing of the content of a batch; that is the source's job.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.buffer import Buffer
from myxtts.data.buffer_size import AdaptiveSize, initial_size
from myxtts.data.memory_cache import MemoryCache, bytes_of
from myxtts.data.sources import HOST, BatchSource
from myxtts.data.workers import worker_count
from myxtts.devices.limits import memory_for_tensors_mb
from myxtts.devices.machine import read_memory
from myxtts.errors import DeviceError, MyXTTSError

SINGLE_GPU, MULTI_GPU = "single-gpu-buffered", "multi-gpu"
# On the model device, in addition to the current batch.
_BATCHES_ON_MODEL_DEVICE = 2
# With fewer the model would soon wait for a data device that has just started.
_BATCHES_BEFORE_MODEL = 4


class Feed:
    """Iterates over the batches of a run. Call `start` first and `close` at the end."""

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
        most = self.buffer_size if room is None else room // batch_bytes
        self._adaptive_size = AdaptiveSize(self.buffer_size, self._threads, most)
        self._problem: Exception | None = None
        self._closing = contextlib.ExitStack()
        self._is_first = True

    def start(self, first_step: int) -> None:
        # How many batches `wait_until_ready` waits for.
        self.batches_before_model = min(
            _BATCHES_BEFORE_MODEL, self.buffer_size, self._last_step - first_step
        )
        self._started_at = time.monotonic()
        self._hold_in_memory()
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
        """Waits `delay_seconds` from the start and for the first batches.

        Returns how long that took and how many batches there are then, including those that are
        on the model device already.
        """
        with self._unwrapped_errors():
            self._buffer.wait_until_made(self.batches_before_model)
            time.sleep(max(0.0, self._started_at + delay_seconds - time.monotonic()))
            ready = self._buffer.wait_until_made(self.batches_before_model)
        return time.monotonic() - self._started_at, ready

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """No batch is made inside this context; call it after `start`."""
        # The nearest first: it may be waiting for a batch of the other.
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
        """What to change if the model waits for data."""
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
        """Batches in the buffer now."""
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
        """Lazy: nothing is computed before the first batch is requested."""
        # The end of a tf.data iterator is an error status in TensorFlow, which operations that
        # other threads run at that moment can fail with: it is never asked for more than it has.
        source = itertools.islice(self._dataset(first_step), self._last_step - first_step)
        return map(self._source.computed, source) if self.mode == MULTI_GPU else source

    def _dataset(self, first_step: int) -> tf.data.Dataset:
        dataset = tf.data.Dataset.range(first_step, self._last_step)
        dataset = dataset.map(self._loading(), num_parallel_calls=self._threads, deterministic=True)
        if self._source.computes_features and self.mode == SINGLE_GPU:
            dataset = dataset.map(
                self._source.features, num_parallel_calls=self._threads, deterministic=True
            )
        options = tf.data.Options()
        # A separate thread pool: the threads of the step are busy.
        options.threading.private_threadpool_size = self._threads
        return dataset.prefetch(self._threads).with_options(options)

    def _loading(self) -> Callable[[tf.Tensor], Any]:
        """Loads the batch of a step inside tf.data."""
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

        return load_in_graph

    @contextlib.contextmanager
    def _unwrapped_errors(self) -> Iterator[None]:
        """Raises the original error that tf.data wraps in its own."""
        try:
            yield
        except tf.errors.OpError as error:
            if self._problem is not None:
                raise self._problem from None
            raise DeviceError(
                f"making batches on {self.data_device} failed: {error.message.splitlines()[0]}"
            ) from error

    def _room_for_batches(self) -> int | None:
        """Bytes available for the buffer; None if unknown."""
        if self.data_device.startswith("GPU"):
            memory_mb = memory_for_tensors_mb(int(self.data_device.removeprefix("GPU:")))
            share = self._config.data.memory_share
            return None if memory_mb is None else int(memory_mb * share) << 20
        return int(_free_bytes() * self._config.data.memory_share) // 2

    def _hold_in_memory(self) -> None:
        """Loads features into memory if they need no more than the batches may take."""
        cache, parts, free = self._source.cache, self._source.arrays_read, _free_bytes()
        if bytes_of(cache, parts) > free * self._config.data.memory_share / 2:
            return
        self._closing.callback(MemoryCache(cache, parts).close)


def _moved(batches: Iterator[Any], device: str) -> Iterator[Any]:
    """Integers stay on the host, where TensorFlow functions expect them."""

    def move(tensor: tf.Tensor) -> tf.Tensor:
        return tf.identity(tensor) if tensor.dtype.is_floating else tensor

    for batch in batches:
        with tf.device(device):
            moved = tf.nest.map_structure(move, batch)
        yield moved


def _free_bytes() -> int:
    return read_memory().free_mb << 20
