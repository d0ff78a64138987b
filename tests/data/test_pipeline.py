import dataclasses
import itertools
import shutil
import threading

import numpy as np
import pytest
import tensorflow as tf

from myxtts.data.batch import Batch
from myxtts.data.cache import open_cache
from myxtts.data.corpus import open_corpus
from myxtts.data.pipeline import (
    WINDOW_STEPS,
    AcousticSource,
    AdaptiveSize,
    Buffer,
    Feed,
    initial_size,
)
from myxtts.errors import DataError, DeviceError

_MEL = Batch._fields.index("mel")


@pytest.fixture
def open_feed(corpus, miniature):
    feeds = []

    def make(
        *,
        part=corpus.train,
        first_step=0,
        last_step=12,
        settings=(),
        worker=0,
        workers=1,
        data_device=None,
        model_device="CPU:0",
    ):
        config = miniature(**dict(settings))
        source = AcousticSource(
            part,
            corpus.tokenizer,
            config,
            data_device=data_device,
            worker=worker,
            workers=workers,
        )
        feed = Feed(source, config, last_step, model_device=model_device)
        feeds.append(feed)
        feed.start(first_step)
        return feed

    yield make
    for feed in feeds:
        feed.close()


def taken(feed, count):
    return [[np.asarray(values) for values in next(feed)] for _ in range(count)]


def assert_same(some, others, atol=0.0):
    for batch, other in zip(some, others, strict=True):
        for values, expected in zip(batch, other, strict=True):
            np.testing.assert_allclose(values, expected, atol=atol, rtol=0)


def test_a_feed_brings_the_batches_of_the_schedule(open_feed, corpus):
    feed = open_feed()
    assert (feed.mode, feed.data_device) == ("single-gpu-buffered", "CPU:0")
    for step in range(12):
        planned = corpus.train.schedule.batch_at(step)
        batch = next(feed)
        np.testing.assert_array_equal(
            batch.mel_lengths, corpus.train.cache.frame_counts[planned.clips]
        )
    with pytest.raises(StopIteration):
        next(feed)


@pytest.mark.parametrize("options", [{}, {"data_device": "CPU:0"}], ids=["single", "multi"])
def test_the_end_of_the_data_is_no_error_in_tensorflow(open_feed, options):
    """Operations of other threads can fail with its status."""
    ends = []

    def watch(frame, event, argument):
        if event == "exception" and issubclass(argument[0], tf.errors.OutOfRangeError):
            ends.append(argument[1])
        return watch

    threading.settrace(watch)
    try:
        feed = open_feed(last_step=2, **options)
    finally:
        threading.settrace(None)
    assert len(taken(feed, 2)) == 2
    with pytest.raises(StopIteration):
        next(feed)
    assert not ends


def test_both_modes_bring_the_same_batches(open_feed):
    plain = taken(open_feed(), 4)
    produced = open_feed(data_device="CPU:0")
    assert produced.mode == "multi-gpu"
    assert_same(taken(produced, 4), plain, atol=1 / 127)


@pytest.mark.parametrize("options", [{}, {"data_device": "CPU:0"}], ids=["single", "multi"])
def test_augmented_batches_are_the_same_again(open_feed, options):
    changed = {"speed": 0.1, "noise_dbfs": -40.0, "pitch_semitones": 2.0}
    once = taken(open_feed(settings=changed, **options), 6)
    resumed = taken(open_feed(settings=changed, first_step=3, **options), 3)
    assert_same(resumed, once[3:])
    assert any(
        (batch[_MEL] != plain[_MEL]).any()
        for batch, plain in zip(once, taken(open_feed(), 6), strict=True)
    )


def test_resuming_late_gives_the_batches_of_an_uninterrupted_run(open_feed):
    """Nothing has to be gone through to reach a step."""
    far = 100_000
    uninterrupted = taken(open_feed(first_step=far - 3, last_step=far + 10), 13)
    resumed = taken(open_feed(first_step=far, last_step=far + 10), 10)
    assert_same(resumed, uninterrupted[3:])


def test_each_machine_gets_its_part(open_feed, miniature):
    part = open_corpus(miniature(), replicas=2).train
    whole = taken(open_feed(part=part), 3)
    parts = [taken(open_feed(part=part, worker=worker, workers=2), 3) for worker in range(2)]
    for step in range(3):
        # Slots count within a share; the rest lies side by side.
        for field in (0, 1, 3, 4, 5, 6, 7):
            together = np.concatenate([part[step][field] for part in parts])
            np.testing.assert_array_equal(together, whole[step][field])


def test_nothing_is_left_running(open_feed):
    before = set(threading.enumerate())
    feed = open_feed(data_device="CPU:0", model_device="CPU:0")
    next(feed)
    feed.close()
    assert set(threading.enumerate()) <= before


def test_a_damaged_clip_reaches_the_user_by_its_name(open_feed, corpus, tmp_path):
    cache = corpus.train.cache
    shutil.copytree(cache.folder, tmp_path / cache.folder.name)
    mels = np.load(tmp_path / cache.folder.name / "mels.npy", mmap_mode="r+")
    mels[cache.index[2]["mels_start"]] = 0
    mels.flush()
    broken = open_cache(tmp_path / cache.folder.name)
    feed = open_feed(part=dataclasses.replace(corpus.train, cache=broken))
    with pytest.raises(DataError, match=cache.audio_path(2).name):
        taken(feed, 12)


def test_a_data_device_that_fails_is_named(open_feed, monkeypatch):
    def run_out_of_memory(waveforms):
        raise tf.errors.ResourceExhaustedError(None, None, "no memory left for mels")

    monkeypatch.setattr(
        "myxtts.data.pipeline.compile_features", lambda config, mean: run_out_of_memory
    )
    feed = open_feed(data_device="CPU:0")
    with pytest.raises(DeviceError, match="CPU:0"):
        feed.wait_until_ready(0)


def test_the_model_waits_for_data_and_for_its_delay(open_feed, monkeypatch):
    slept = []
    monkeypatch.setattr("myxtts.data.pipeline.time.sleep", slept.append)
    feed = open_feed(data_device="CPU:0")
    _, ready = feed.wait_until_ready(1_000)
    assert ready >= feed.batches_before_model == 4
    assert 900 < slept[0] <= 1_000


def test_batches_on_the_model_device_count_as_ready(open_feed):
    # Another name of the same device stands in for a second one.
    feed = open_feed(data_device="CPU:0", model_device="/CPU:0", first_step=9)
    assert feed.batches_before_model == 3, "no more are to come"
    _, ready = feed.wait_until_ready(0.5)
    assert ready == 3


@pytest.mark.parametrize("data_device", [None, "CPU:0"])
def test_a_paused_feed_makes_nothing_and_loses_nothing(open_feed, data_device):
    expected = taken(open_feed(data_device=data_device), 12)
    # With two devices the second buffer waits for the first.
    devices = {"data_device": data_device, "model_device": "/CPU:0" if data_device else "CPU:0"}
    feed = open_feed(settings={"buffer_size": 2, "workers": 1}, **devices)
    with feed.paused():
        made = feed._buffer.wait_until_made(0)
        threading.Event().wait(0.2)
        assert feed._buffer.wait_until_made(0) == made < 12
    assert_same(taken(feed, 12), expected)


def test_a_buffer_takes_no_more_memory_than_its_share(open_feed):
    feed = open_feed(settings={"buffer_size": 10_000})
    assert feed.buffer_size < 10_000


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
    with pytest.raises(DeviceError):
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
    size = AdaptiveSize(50, workers=2, max_size=150)
    assert windows(size, [0], waits=True) == 100
    assert "100 batches instead of 50" in size.change
    assert windows(size, [0, 0], waits=True) == 150
    # A buffer that was once too small is not made small again.
    assert windows(size, [149, 149]) == 150
    # Where memory would allow more, growing ends where it no longer helps.
    assert windows(AdaptiveSize(10, workers=2, max_size=10_000), [0] * 9, waits=True) == 40


def test_the_buffer_shrinks_when_the_model_never_waits():
    size = AdaptiveSize(50, workers=2, max_size=150)
    assert windows(size, [49]) == 25
    assert "25 batches instead of 50" in size.change
    assert windows(size, [25, 12, 6, 4]) == 4


def test_a_buffer_that_is_needed_keeps_its_size():
    assert windows(AdaptiveSize(50, workers=2, max_size=150), [10, 20, 1]) == 50


def test_a_buffer_below_the_minimum_keeps_its_size():
    assert windows(AdaptiveSize(1, workers=2, max_size=1), [1, 1]) == 1
