"""Parallel map over worker processes or a Dask cluster, with few tasks in flight at a time."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from myxtts.devices.doctor import install_command
from myxtts.errors import ConfigError, DataError

_TASKS_AHEAD_PER_WORKER = 4
_CONNECT_SECONDS = 30

Task = TypeVar("Task")
Result = TypeVar("Result")


def worker_count(wanted: int | None, tasks: int) -> int:
    """Return the configured number, or one per core, at most one per task; 0 for one task."""
    return 0 if tasks <= 1 else min(wanted or os.cpu_count() or 1, tasks)


def map_in_workers(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    workers: int,
    initializer: Callable[[], None] | None = None,
) -> Iterator[Result]:
    """Yield results in task order; with no workers, compute them in this process.

    Only a few tasks are in flight at a time, which bounds memory and lets the map stop quickly.
    Workers import the module of the function, so it cannot be defined in the running program.
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
    processes: set[BaseProcess] = set()
    try:
        for task in tasks:
            others = set(multiprocessing.active_children()) - processes
            with program_left_out():  # a worker may start with any task
                waiting.append(pool.submit(function, task))
            processes |= set(multiprocessing.active_children()) - others
            if len(waiting) >= workers * _TASKS_AHEAD_PER_WORKER:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise DataError(
            "a worker process was killed; if memory is short, try data.workers = 1"
        ) from None
    except BaseException:
        # Results are no longer needed: do not wait for tasks or starting workers.
        for process in processes:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def map_on_cluster(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    address: str,
    initializer: Callable[[], None] | None = None,
) -> Iterator[Result]:
    """Yield results of a dask.distributed cluster as they finish.

    Dask repeats the tasks of a lost worker. Paths are the same on all workers, so they need the
    shared folder at the same place.
    """
    try:
        from distributed import Client, KilledWorker, as_completed
    except ImportError:
        raise ConfigError(f"--dask: requires {install_command('cluster')}") from None
    try:
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--dask: found no scheduler at {address} ({error})") from None
    task_on_worker = functools.partial(_run_on_cluster, function, initializer, Path.cwd())
    waiting = iter(tasks)

    def submit(count: int) -> list[Any]:
        # Pure tasks would be cached by content; these write files.
        return [client.submit(task_on_worker, task, pure=False) for task in islice(waiting, count)]

    with client:
        try:
            client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
        except TimeoutError:
            raise ConfigError(f"--dask: the scheduler at {address} has no workers") from None
        tasks_ahead = _TASKS_AHEAD_PER_WORKER * sum(client.nthreads().values())
        running = as_completed(submit(tasks_ahead), loop=client.loop)
        try:
            for future in running:
                yield future.result()
                running.update(submit(1))
        except KilledWorker:
            raise DataError(
                f"--dask: workers at {address} were killed several times during the same task; "
                "they may be short of memory"
            ) from None
        except ModuleNotFoundError as error:
            raise ConfigError(f"--dask: the workers at {address} have {error}") from None


_one_at_a_time = threading.Lock()


def _run_on_cluster(
    function: Callable[[Task], Result],
    initializer: Callable[[], None] | None,
    folder: Path,
    task: Task,
) -> Result:
    """Run a task in a Dask worker, one per process, as `map_in_workers` does."""
    with _one_at_a_time:
        if not folder.is_dir():
            raise DataError(f"--dask: a worker does not see {folder}, which all need to share")
        with contextlib.chdir(folder):
            if initializer is not None:
                _initialize_once(initializer)
            return function(task)


@functools.cache
def _initialize_once(initializer: Callable[[], None]) -> None:
    initializer()


@contextlib.contextmanager
def program_left_out() -> Iterator[None]:
    """Keep processes spawned inside from importing the running program.

    A script that calls `myxtts.train` outside `if __name__ == "__main__"` would run again in each.
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
    # The parent gets the interrupt too and stops the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if initializer is not None:
        initializer()


def _end_with_parent() -> None:
    """End with the parent, because workers of a killed parent would wait for tasks forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
