"""Threads that wait are served together, and each gets its own results."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from myxtts.synthesis.speaker import UnwantedError, WorkQueue


def test_results_come_in_the_order_of_the_jobs():
    queue = WorkQueue(lambda jobs: [-job for job in jobs], lambda job: job % 2, max_jobs=3)
    assert queue.do(range(10)) == [-job for job in range(10)]


def test_what_waits_together_is_done_together_if_it_is_of_one_kind():
    batches, first_is_working, go_on = [], threading.Event(), threading.Event()

    def work(jobs):
        batches.append(list(jobs))
        first_is_working.set()
        assert go_on.wait(10)
        return [job * 10 for job in jobs]

    queue = WorkQueue(work, lambda job: job >= 100, max_jobs=8)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(queue.do, [0])
        assert first_is_working.wait(10)
        others = [pool.submit(queue.do, [job]) for job in (1, 2, 3, 100)]
        while len(queue._waiting) < 4:
            pass
        go_on.set()
        assert first.result() == [0]
        assert [other.result() for other in others] == [[10], [20], [30], [1_000]]
    assert batches[0] == [0]
    assert sorted(map(sorted, batches[1:])) == [[1, 2, 3], [100]]


def test_a_failure_reaches_those_who_asked_and_nobody_else():
    def work(jobs):
        if "bad" in jobs:
            raise ValueError("bad")
        return jobs

    queue = WorkQueue(work, lambda job: job, max_jobs=4)
    with pytest.raises(ValueError, match="bad"):
        queue.do(["good", "bad"])
    assert queue.do(["good", "good"]) == ["good", "good"]


def test_an_interrupted_thread_leaves_no_work_behind():
    def work(jobs):
        raise KeyboardInterrupt

    queue = WorkQueue(work, lambda job: job, max_jobs=1)
    with pytest.raises(KeyboardInterrupt):
        queue.do([1, 2, 3])
    assert queue._waiting == []


def test_work_that_is_not_wanted_any_more_is_not_done():
    batches, first_is_working, go_on = [], threading.Event(), threading.Event()
    wanted = threading.Event()
    wanted.set()

    def work(jobs):
        batches.append(list(jobs))
        first_is_working.set()
        assert go_on.wait(10)
        return jobs

    queue = WorkQueue(work, lambda job: None, max_jobs=8)
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(queue.do, [1])
        assert first_is_working.wait(10)
        given_up = pool.submit(queue.do, [2, 3], wanted.is_set)
        patient = pool.submit(queue.do, [4])
        while len(queue._waiting) < 3:
            pass
        wanted.clear()
        go_on.set()
        assert first.result() == [1]
        assert patient.result() == [4]
        with pytest.raises(UnwantedError):
            given_up.result()
    assert batches == [[1], [4]]
    assert queue._waiting == []
