import itertools
import threading

import numpy as np
import pytest

from myxtts.data.buffer import Buffer
from myxtts.data.buffer_size import WINDOW_STEPS, AdaptiveSize, initial_size
from myxtts.data.cache import open_cache
from myxtts.data.memory_cache import MemoryCache
from myxtts.errors import DeviceError


class Counted:
    """Counts without end, and how far it was asked to."""

    def __init__(self):
        self.asked = 0
        self.reached = threading.Condition()

    def __iter__(self):
        return self

    def __next__(self):
        with self.reached:
            self.asked += 1
            self.reached.notify_all()
        return self.asked - 1

    def wait_until_asked(self, times):
        with self.reached:
            assert self.reached.wait_for(lambda: self.asked >= times, timeout=60)


@pytest.fixture
def open_buffer():
    buffers = []

    def make(source, size=3):
        buffers.append(Buffer(iter(source), size, "test"))
        return buffers[-1]

    yield make
    for buffer in buffers:
        buffer.close()


def test_items_come_in_order_and_end(open_buffer):
    assert list(open_buffer(range(20))) == list(range(20))


def test_no_more_than_its_size_is_made_ahead(open_buffer):
    source = Counted()
    buffer = open_buffer(source, size=3)
    # One more waits for room.
    source.wait_until_asked(4)
    assert len(buffer) == 3
    assert next(buffer) == 0
    source.wait_until_asked(5)
    assert source.asked == 5
    buffer.size = 6
    source.wait_until_asked(8)
    assert source.asked == 8


def test_nothing_is_made_while_it_is_paused(open_buffer):
    source = Counted()
    buffer = open_buffer(source, size=3)
    with buffer.paused():
        asked = source.asked
        ready = len(buffer)
        assert [next(buffer) for _ in range(ready)] == list(range(ready))
        # One item may have waited for room.
        assert source.asked == asked <= ready + 1
    assert [next(buffer) for _ in range(9)] == list(range(ready, ready + 9))


def test_an_item_that_was_begun_is_awaited_before_a_pause(open_buffer):
    began, may_end = threading.Event(), threading.Event()

    def slow():
        yield 0
        began.set()
        may_end.wait(60)
        yield 1

    buffer = open_buffer(slow())
    assert began.wait(60)
    threading.Timer(0.1, may_end.set).start()
    with buffer.paused():
        assert may_end.is_set()
    assert list(buffer) == [0, 1]


def test_a_paused_buffer_can_be_closed(open_buffer):
    buffer = open_buffer(Counted())
    with buffer.paused():
        buffer.close()
    assert not buffer._thread.is_alive()


def test_items_that_were_taken_count_as_made(open_buffer):
    buffer = open_buffer(range(3))
    assert next(buffer) == 0
    assert buffer.wait_until_made(3) == 3
    # No more will come.
    assert buffer.wait_until_made(9) == 3


def test_an_error_comes_before_what_is_ready(open_buffer):
    def failing():
        yield from range(2)
        raise OSError("disk on fire")

    buffer = open_buffer(failing(), size=5)
    buffer._thread.join(60)
    assert len(buffer) == 2
    with pytest.raises(OSError, match="disk on fire"):
        next(buffer)
    with pytest.raises(OSError, match="disk on fire"):
        buffer.wait_until_made(1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_was_ended_from_outside_is_an_error(open_buffer):
    def ended():
        yield 0
        raise SystemExit

    buffer = open_buffer(ended())
    buffer._thread.join(60)
    with pytest.raises(DeviceError, match="ended unexpectedly"):
        next(buffer)


def test_closing_ends_the_thread_and_whoever_waits(open_buffer):
    waits_for_ever = threading.Event()
    taken = []

    def stuck():
        yield 0
        waits_for_ever.wait(120)

    buffer = open_buffer(stuck())
    assert next(buffer) == 0
    taker = threading.Thread(target=lambda: taken.extend(buffer), daemon=True)
    taker.start()
    waits_for_ever.set()
    buffer.close()
    taker.join(60)
    assert not taker.is_alive()
    assert taken == []
    assert not buffer._thread.is_alive()


def test_closing_a_buffer_ends_the_one_that_takes_from_it(open_buffer):
    released = threading.Event()

    def stuck():
        released.wait(120)
        yield 0

    first = open_buffer(stuck())
    second = open_buffer(first)
    closing = threading.Thread(target=first.close)
    closing.start()
    second._thread.join(60)
    assert not second._thread.is_alive()
    released.set()
    closing.join(60)
    assert list(second) == []


@pytest.mark.parametrize(
    ("wanted", "workers", "room", "expected"),
    [
        (50, 4, None, 50),
        (2, 8, None, 8),
        (50, 4, 10_000, 10),
        (50, 4, 999, 1),
    ],
)
def test_the_first_size_suits_workers_and_memory(wanted, workers, room, expected):
    assert initial_size(wanted, workers, room, batch_bytes=1_000) == expected


def windows(size, fills, waits=False):
    for fill, waited in zip(fills, itertools.repeat(waits), strict=False):
        for _ in range(WINDOW_STEPS):
            size.after_step(fill, waited)
    return size.size


def test_the_buffer_grows_when_the_model_waits_up_to_what_fits():
    size = AdaptiveSize(50, workers=2, most=150)
    assert windows(size, [0], waits=True) == 100
    assert "100 batches instead of 50" in size.change
    assert windows(size, [0, 0], waits=True) == 150
    # A buffer that was once too small is not made small again.
    assert windows(size, [149, 149]) == 150
    # Where memory would allow more, growing ends where it no longer helps.
    assert windows(AdaptiveSize(10, workers=2, most=10_000), [0] * 9, waits=True) == 40


def test_the_buffer_shrinks_when_the_model_never_waits():
    size = AdaptiveSize(50, workers=2, most=150)
    assert windows(size, [49]) == 25
    assert "25 batches instead of 50" in size.change
    assert windows(size, [25, 12, 6, 4]) == 4


def test_a_buffer_that_is_needed_keeps_its_size():
    assert windows(AdaptiveSize(50, workers=2, most=150), [10, 20, 1]) == 50


def test_a_buffer_smaller_than_the_least_stays():
    assert windows(AdaptiveSize(1, workers=2, most=1), [1, 1]) == 1


def test_features_move_into_memory_unchanged(corpus):
    cache = open_cache(corpus.validation.cache.folder)
    on_disk = [cache.clip_mel(clip) for clip in range(len(cache))]
    memory = MemoryCache(cache, ["tokens", "mels"])
    memory.wait()
    assert cache.reader.is_held("mels")
    assert not cache.reader.is_held("audio")
    for clip, mel in enumerate(on_disk):
        np.testing.assert_array_equal(cache.clip_mel(clip), mel)
    with pytest.raises(ValueError, match="read-only"):
        cache.clip_mel(0)[:] = 0
    memory.close()
