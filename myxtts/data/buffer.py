"""A bounded prefetch buffer, filled by a thread."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from myxtts.errors import DeviceError

Item = TypeVar("Item")

_SECONDS_TO_END = 10.0


class Buffer(Generic[Item]):
    """Prefetches up to `size` items of a source, in order.

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
        """Waits for the first `count` items, taken or not, or for the last one.

        Returns how many were made so far; raises the source's error.
        """
        with self._changed:
            self._wait_until(lambda: self._made >= count)
            return self._made

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """No item is made inside this context; one that was begun is made first."""
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
        """Stops the thread, wakes waiting consumers and drops all items."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Stops the thread and waits for it to end."""
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
        """Waits while paused; returns whether the buffer is still open."""
        with self._changed:
            self._changed.wait_for(lambda: not self._paused or self._closed)
            self._making = not self._closed
            return self._making

    def _put(self, item: Item) -> bool:
        """Waits for space; returns whether the buffer is still open."""
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
