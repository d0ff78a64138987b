"""Recommended settings: decisions from made-up measurements, and what is measured."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.data.batch import BatchLoader
from myxtts.data.pipeline import AcousticSource
from myxtts.training.tune import (
    LoadTimes,
    Speed,
    StepBench,
    Tuner,
    batch_sizes_to_try,
    choose_batch,
    choose_buffer_size,
    choose_precision,
    choose_workers,
    choose_xla,
    climb,
    compare,
    time_loading,
    workload,
)


@pytest.mark.parametrize(
    ("now", "replicas", "clips", "sizes"),
    [
        (16, 1, 3_000, [4, 8, 16, 32, 64, 128]),
        (12, 6, 1_000, [6, 12, 24, 48]),
        (2, 1, 18, [2]),
    ],
)
def test_batch_sizes_to_try(now, replicas, clips, sizes):
    assert batch_sizes_to_try(now, replicas, clips) == sizes


@pytest.mark.parametrize(
    ("now", "fits", "in_time", "measured"),
    [
        (4, 128, 128, [4, 8, 16, 32, 64]),  # two doublings without a gain
        (128, 128, 128, [4, 8, 16, 32, 64, 128]),  # the current size in any case
        (4, 8, 128, [4, 8]),
        (4, 128, 16, [4, 8, 16]),
        (4, 0, 128, []),
    ],
)
def test_the_climb_ends_without_gain_memory_or_time(now, fits, in_time, measured):
    rates = {4: 100.0, 8: 190.0, 16: 200.0, 32: 201.0, 64: 202.0, 128: 203.0}
    found = climb(
        list(rates), now, lambda it: rates[it] if it <= fits else None, lambda it: it <= in_time
    )
    assert list(found) == measured


def test_only_rates_of_the_same_round_are_compared():
    # The third round was slow for both.
    speed = compare([2.0, 2.2, 0.2], [1.0, 1.1, 0.1])
    assert speed == pytest.approx((2.0, 2.0, 2.0))
    assert speed.is_faster
    assert compare([1.0, 1.1, 0.1], [2.0, 2.2, 0.2]).is_slower


@pytest.mark.parametrize("rates", [[1.2, 1.3, 0.9], [1.02, 1.02, 1.02]])
def test_noise_is_not_faster(rates):
    assert not compare(rates, [1.0] * 3).is_faster
    (kept,) = choose_batch({8: [1.0] * 3, 16: rates}, 8)
    assert not kept.changes
    times = {1: LoadTimes([1.0] * 3, 0.1), 2: LoadTimes(rates, 0.1)}
    assert not choose_workers(times, 1, cores=2, steps_per_second=5.0).changes
    assert not choose_precision({"bfloat16": compare(rates, [1.0] * 3)}, "float32").changes


def test_the_smallest_of_the_fastest_batches():
    rates = {4: [50.0, 51.0, 25.0], 16: [99.0, 101.0, 49.5], 64: [100.0, 102.0, 50.0]}
    for now in rates:
        (found,) = choose_batch(rates, now)
        assert (found.setting, found.now, found.recommended) == ("data.batch_size", now, 16)


@pytest.mark.parametrize(
    ("now", "accumulation", "steps"),
    [
        (32, 1, 4),  # does not fit into memory
        (4, 6, 3),
        (4, 1, None),
        (8, 6, None),
    ],
)
def test_a_step_keeps_its_clips(now, accumulation, steps):
    rates = {4: [50.0] * 3, 8: [70.0] * 3}
    found = {item.setting: item for item in choose_batch(rates, now, accumulation)}
    assert found["data.batch_size"].recommended == 8
    advised = found.get("training.gradient_accumulation_steps")
    assert (advised and advised.recommended) == steps


def sure(speed: float) -> Speed:
    return Speed(speed, speed, speed)


@pytest.mark.parametrize(
    ("speeds", "now", "chosen"),
    [
        ({"bfloat16": 1.8, "float16": 1.82}, "float32", "bfloat16"),
        ({"bfloat16": 1.0, "float16": 1.9}, "float32", "float16"),
        ({"bfloat16": 0.1}, "float32", "float32"),
        ({"float32": 1.2}, "float16", "float32"),
        ({}, "float32", "float32"),
    ],
)
def test_precision(speeds, now, chosen):
    speeds = {name: sure(speed) for name, speed in speeds.items()}
    assert choose_precision(speeds, now).recommended == chosen


@pytest.mark.parametrize(
    ("speed", "compile_seconds", "now", "chosen"),
    [
        (1.5, 60.0, False, True),
        (1.5, 300.0, False, False),  # pays off after most of the run
        (1.5, 300.0, True, False),
        (1.01, 60.0, False, False),
        (1.01, 60.0, True, True),
        (0.8, 60.0, True, False),
    ],
)
def test_xla(speed, compile_seconds, now, chosen):
    found = choose_xla(
        sure(speed), now, seconds_without=1.0, compile_seconds=compile_seconds, total_steps=1_000
    )
    assert found.recommended is chosen


@pytest.mark.parametrize(
    ("now", "steps_per_second", "chosen"),
    [(1, 5.0, 1), (1, 8.0, 2), (None, 50.0, None), (3, 50.0, 3)],
)
def test_workers_change_only_where_loading_is_slow(now, steps_per_second, chosen):
    times = {1: LoadTimes([10.0], 0.1), 2: LoadTimes([19.0], 0.1), 4: LoadTimes([19.2], 0.1)}
    found = choose_workers(times, now, cores=4, steps_per_second=steps_per_second)
    assert found.recommended == chosen


@pytest.mark.parametrize(
    ("stall", "now", "free_mb", "chosen"),
    [
        (0.01, 50, 10_000, 50),  # more than needed does no harm
        (5.0, 10, 10_000, 40),  # four stalls of ten steps
        (5.0, 10, 1_600, 20),  # as many as there is memory for
        (0.01, 50, 800, 10),
        (5.0, 10, None, 40),
    ],
)
def test_buffer_size(stall, now, free_mb, chosen):
    found = choose_buffer_size(
        stall, now, workers=2, step_seconds=0.5, batch_mb=10.0, free_mb=free_mb
    )
    assert found.recommended == chosen


def test_a_workload_represents_the_epoch(corpus, miniature, monkeypatch):
    schedule = corpus.train.schedule
    shapes = [schedule.batch_at(step).shape for step in range(schedule.batches_per_epoch)]
    work = workload(corpus.train, BatchLoader(corpus.train.cache, corpus.tokenizer, miniature()))
    largest = max(shapes, key=lambda shape: shape.batch * shape.frames * shape.tokens)
    assert work.largest_frames == largest.batch * largest.frames
    assert work.share_of_largest == shapes.count(largest) / len(shapes)
    assert work.largest_mb == pytest.approx(
        sum(tensor.numpy().nbytes for tensor in work.largest) / 2**20
    )
    # Real frames per second, with one second for every clip.
    monkeypatch.setattr(StepBench, "__init__", lambda self: None)
    monkeypatch.setattr(StepBench, "seconds", lambda self, batch: float(batch.mel.shape[0]))
    work = work._replace(share_of_largest=0.25)
    real, clips = (
        0.75 * amount(work.typical) + 0.25 * amount(work.largest)
        for amount in (lambda it: np.sum(it.mel_lengths), lambda it: it.mel.shape[0])
    )
    assert StepBench().frame_rate(work) == pytest.approx(real / clips)


class RecordedSource(AcousticSource):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.loaded, self.computed_clips = [], []

    def load(self, step):
        self.loaded.append(step)
        return super().load(step)

    def computed(self, waveforms):
        batch = super().computed(waveforms)
        self.computed_clips.append(batch.mel.shape[0])
        return batch


@pytest.mark.parametrize(("options", "computes"), [({}, False), ({"data_device": "CPU:0"}, True)])
def test_loading_is_timed_as_in_a_run(corpus, miniature, options, computes):
    source = RecordedSource(corpus.train, corpus.tokenizer, miniature(), **options)
    times = time_loading(source, threads=2, first_step=3, count=6)
    (rate,) = times.rates
    assert 0 < times.slowest_seconds <= 6 / rate
    assert sorted(source.loaded) == list(range(3, 9))
    assert len(source.computed_clips) == (6 if computes else 0)


def test_with_augmentation_the_tuner_times_computed_features(corpus, miniature, monkeypatch):
    sources = []

    class Source(RecordedSource):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            sources.append(self)

    monkeypatch.setattr("myxtts.training.tune.AcousticSource", Source)
    config = miniature(pitch_semitones=1.0)
    tuning = Tuner(config, corpus, tf.distribute.get_strategy(), seconds=0.1).run()
    assert tuning.measurements["batches_loaded_per_second"]
    (source,) = sources
    assert len(source.computed_clips) == len(source.loaded) > 0
