"""Work of several threads that waits together is done together. Knows nothing of speech."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


class UnwantedError(Exception):
    """Nobody waits for the result any more."""


def always_wanted() -> bool:
    return True


class _Waiting(Generic[_Job, _Result]):
    def __init__(self, job: _Job, is_wanted: Callable[[], bool]) -> None:
        self.job = job
        self.is_wanted = is_wanted
        self.result: _Result | None = None
        self.error: BaseException | None = None
        self.is_done = False


class WorkQueue(Generic[_Job, _Result]):
    """Calls `work` with at most `most` jobs of one kind at a time, in one thread at a time.

    There is no thread of its own: whichever waiting thread gets its turn works for all.
    """

    def __init__(
        self,
        work: Callable[[Sequence[_Job]], Sequence[_Result]],
        kind_of: Callable[[_Job], Hashable],
        most: int,
    ) -> None:
        self._work, self._kind_of, self._most = work, kind_of, most
        self._waiting: list[_Waiting[_Job, _Result]] = []
        self._list_lock, self._turn = threading.Lock(), threading.Lock()

    def do(
        self, jobs: Sequence[_Job], is_wanted: Callable[[], bool] = always_wanted
    ) -> list[_Result]:
        """The results of jobs, in their order; UnwantedError if they are not wanted any more.

        `is_wanted` is asked by any thread, before the jobs are begun.
        """
        own: list[_Waiting[_Job, _Result]] = [_Waiting(job, is_wanted) for job in jobs]
        with self._list_lock:
            self._waiting += own
        try:
            while not all(one.is_done for one in own):
                with self._turn:
                    if not all(one.is_done for one in own):
                        if not is_wanted():
                            raise UnwantedError
                        self._do_some()
        finally:
            self._withdraw(own)
        for one in own:
            if one.error is not None:
                raise one.error
        return [one.result for one in own]  # type: ignore[misc]

    def alone(self) -> threading.Lock:
        """Held, no other thread works: for work that does not go through the queue."""
        return self._turn

    def _do_some(self) -> None:
        with self._list_lock:
            # Those that are not wanted are withdrawn by the threads that asked for them.
            wanted = [one for one in self._waiting if one.is_wanted()]
            if not wanted:
                return
            kind = self._kind_of(wanted[0].job)
            alike = [one for one in wanted if self._kind_of(one.job) == kind]
            chosen = alike[: self._most]
            self._waiting = [one for one in self._waiting if one not in chosen]
        try:
            results = self._work([one.job for one in chosen])
            for one, result in zip(chosen, results, strict=True):
                one.result = result
        except BaseException as error:
            for one in chosen:
                one.error = error
            # What fails is told to those who asked for it; Ctrl-C is for whoever works.
            if not isinstance(error, Exception):
                raise
        finally:
            for one in chosen:
                one.is_done = True

    def _withdraw(self, own: Sequence[_Waiting[_Job, _Result]]) -> None:
        """An interrupted thread leaves no work behind for others."""
        with self._list_lock:
            self._waiting = [one for one in self._waiting if one not in own]
