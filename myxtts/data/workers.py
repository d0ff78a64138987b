"""Work on many clips in several processes, in order and a bounded number of tasks ahead."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from myxtts.errors import DataError

_TASKS_AHEAD_PER_WORKER = 4

Task = TypeVar("Task")
Result = TypeVar("Result")


def worker_count(wanted: int | None, tasks: int) -> int:
    """As many as wanted, or one per core, but no more than there is work for; 0 for one task."""
    return 0 if tasks <= 1 else min(wanted or os.cpu_count() or 1, tasks)


def map_in_workers(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    workers: int,
    initializer: Callable[[], None] | None = None,
) -> Iterator[Result]:
    """Results in the order of the tasks; with no worker, from this process.

    Only a few tasks are under way at a time: memory stays small and a stop comes at once. Workers
    import the module of the function, so it cannot be one of the program that runs.
    """
    if workers == 0:
        yield from map(function, tasks)
        return
    # Threads of this process, such as TensorFlow's, do not survive a fork.
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(
        workers, mp_context=context, initializer=_start_worker, initargs=(initializer,)
    )
    waiting: deque[concurrent.futures.Future[Result]] = deque()
    try:
        for task in tasks:
            with program_left_out():  # a worker may start with any task
                waiting.append(pool.submit(function, task))
            if len(waiting) >= workers * _TASKS_AHEAD_PER_WORKER:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise DataError(
            "a worker process was killed at its work; if memory is short, try data.workers = 1"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def program_left_out() -> Iterator[None]:
    """Processes that are spawned within do not import the program that runs.

    A script that calls `myxtts.train` without a guard around it would start once more in each.
    """
    program = sys.modules["__main__"]
    names = [name for name in ("__file__", "__spec__") if hasattr(program, name)]
    kept = {name: getattr(program, name) for name in names}
    program.__spec__ = None
    if "__file__" in kept:
        del program.__file__
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(program, name, value)


def _start_worker(initializer: Callable[[], None] | None) -> None:
    # The parent hears of an interrupt too and ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if initializer is not None:
        initializer()


def _end_with_parent() -> None:
    """A parent that was killed ends no workers; they would wait for tasks for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
