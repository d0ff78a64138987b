"""Decisions from made-up measurements."""

import pytest

from myxtts.training.tune import (
    BatchSetting,
    LoadTimes,
    Reading,
    Speed,
    XlaComparison,
    batch_sizes_to_try,
    choose_batch,
    choose_buffer_size,
    choose_precision,
    choose_workers,
    choose_xla,
    climb,
    compare,
    promising,
)


@pytest.mark.parametrize(
    ("now", "replicas", "clips", "sizes"),
    [
        (16, 1, 3_000, [4, 8, 16, 32, 64, 128]),
        (12, 1, 330, [4, 8, 12, 16]),
        (12, 6, 1_000, [6, 12, 24, 48]),
        (2, 1, 18, [2]),
        (64, 1, 100, [4, 64]),
    ],
)
def test_batch_sizes_to_try(now, replicas, clips, sizes):
    assert batch_sizes_to_try(now, replicas, clips) == sizes


def climbed(rates, now=4, fits=lambda batch: True, has_time_for=lambda size: True):
    """Which settings were measured well, for rates by batch size."""

    def measure(batch):
        if not fits(batch):
            return None
        frames = 100 * batch.batch_size
        return Reading(rates[batch.batch_size], min(frames, batch.frame_budget or frames))

    return climb(list(rates), BatchSetting(now), measure, has_time_for)


def test_the_climb_ends_where_nothing_is_gained():
    rates = {4: 100.0, 8: 190.0, 16: 200.0, 32: 201.0, 64: 202.0, 128: 203.0}
    assert [batch.batch_size for batch in climbed(rates)] == [4, 8, 16, 32, 64]
    # The present size is measured in any case.
    assert [batch.batch_size for batch in climbed(rates, now=128)] == list(rates)


def test_the_climb_ends_where_time_is_short():
    rates = {4: 100.0, 8: 200.0, 16: 300.0}
    assert list(climbed(rates, has_time_for=lambda size: size <= 8)) == [
        BatchSetting(4),
        BatchSetting(8),
    ]


def test_short_memory_bounds_the_frames_before_it_ends_the_climb():
    def fits(batch):
        return min(100 * batch.batch_size, batch.frame_budget or 10_000) <= 900

    rates = {4: 100.0, 8: 190.0, 16: 300.0, 32: 400.0}
    assert list(climbed(rates, fits=fits)) == [
        BatchSetting(4),
        BatchSetting(8),
        BatchSetting(16, 800),
        BatchSetting(32, 800),
    ]
    assert climbed(rates, fits=lambda batch: batch.batch_size < 16).keys() == {
        BatchSetting(4),
        BatchSetting(8),
    }
    assert climbed(rates, fits=lambda batch: False) == {}


def test_slow_sizes_get_no_closer_look_unless_they_are_configured():
    readings = {BatchSetting(size): Reading(rate, 1) for size, rate in ((4, 50), (8, 60), (16, 99))}
    assert promising(readings, now=BatchSetting(4)) == [BatchSetting(4), BatchSetting(16)]


def test_only_what_was_measured_in_the_same_round_is_compared():
    # The third round was slow for both.
    speed = compare([2.0, 2.2, 0.2], [1.0, 1.1, 0.1])
    assert speed == pytest.approx((2.0, 2.0, 2.0))
    assert speed.is_faster
    assert not speed.is_slower
    assert compare([1.0, 1.1, 0.1], [2.0, 2.2, 0.2]).is_slower
    assert compare([1.0] * 6, [1.0, 3.0, 1.1, 1.0, 0.9, 1.2]) == pytest.approx(
        (0.95, 1 / 1.2, 1.0), abs=0.01
    )


@pytest.mark.parametrize("rates", [[1.2, 1.3, 0.9], [1.02, 1.02, 1.02]])
def test_what_may_be_noise_is_not_faster(rates):
    assert not compare(rates, [1.0] * 3).is_faster
    batches = {BatchSetting(8): [1.0] * 3, BatchSetting(16): rates}
    (kept,) = choose_batch(batches, BatchSetting(8))
    assert not kept.changes
    times = {1: LoadTimes([1.0] * 3, 0.1), 2: LoadTimes(rates, 0.1)}
    assert not choose_workers(times, 1, cores=2, steps_per_second=5.0).changes


def test_a_doubtful_gain_is_shown_as_such():
    found = choose_precision({"bfloat16": Speed(1.2, 0.9, 1.4)}, "float32")
    assert not found.changes
    assert "bfloat16 1.20 x (0.90 to 1.40, too uncertain)" in found.worth


def sure(speed: float) -> Speed:
    return Speed(speed, speed, speed)


def test_the_smallest_of_the_fastest_batches():
    rates = {
        BatchSetting(4): [50.0, 51.0, 25.0],
        BatchSetting(16): [99.0, 101.0, 49.5],
        BatchSetting(64): [100.0, 102.0, 50.0],
    }
    (larger,) = choose_batch(rates, BatchSetting(4))
    assert (larger.setting, larger.now, larger.recommended) == ("data.batch_size", 4, 16)
    assert larger.worth == "1.98 x the frames per second, 0.25 x the updates from the same clips"
    (smaller,) = choose_batch(rates, BatchSetting(64))
    assert smaller.recommended == 16
    assert smaller.worth == "0.99 x the frames per second, 4 x the updates from the same clips"
    (same,) = choose_batch(rates, BatchSetting(16))
    assert not same.changes
    assert "4, 16, 64" in same.worth


def test_a_bound_on_frames_is_recommended_with_the_batch_that_needs_it():
    rates = {BatchSetting(8): [50.0], BatchSetting(16, 800): [80.0]}
    batch, budget = choose_batch(rates, BatchSetting(8))
    assert (batch.recommended, budget.setting, budget.recommended) == (16, "data.frame_budget", 800)


@pytest.mark.parametrize(
    ("now", "accumulation", "batch", "steps", "worth"),
    [
        (32, 1, 8, 4, "32 clips in a step, as 32 now"),  # does not fit into memory
        (4, 6, 8, 3, "24 clips in a step, as 24 now"),
        (4, 1, 8, None, None),
        (8, 6, 8, None, None),
    ],
)
def test_a_step_keeps_its_clips(now, accumulation, batch, steps, worth):
    rates = {BatchSetting(4): [50.0] * 3, BatchSetting(8): [70.0] * 3}
    found = {item.setting: item for item in choose_batch(rates, BatchSetting(now), accumulation)}
    assert found["data.batch_size"].recommended == batch
    advised = found.get("training.gradient_accumulation_steps")
    assert (advised and advised.recommended) == steps
    assert (advised and advised.worth) == worth
    assert ("does not fit into memory" in found["data.batch_size"].worth) == (now == 32)


@pytest.mark.parametrize(
    ("speeds", "now", "chosen", "worth"),
    [
        ({"bfloat16": 1.8, "float16": 1.82}, "float32", "bfloat16", "1.80 x the steps per second"),
        ({"bfloat16": 1.0, "float16": 1.9}, "float32", "float16", "1.90 x the steps per second"),
        ({"bfloat16": 0.1}, "float32", "float32", "of the others: bfloat16 0.10 x"),
        ({"float32": 1.2}, "float16", "float32", "1.20 x the steps per second"),
        ({"float32": 1.02}, "float16", "float16", "of the others: float32 1.02 x"),
        ({}, "float32", "float32", "not compared"),
    ],
)
def test_precision(speeds, now, chosen, worth):
    found = choose_precision({name: sure(speed) for name, speed in speeds.items()}, now)
    assert found.recommended == chosen
    assert worth in found.worth


@pytest.mark.parametrize(
    ("speed", "compile_seconds", "now", "chosen", "worth"),
    [
        (1.5, 60.0, False, True, "worth it after 180 steps; the run has 1,000 steps"),
        (1.5, 300.0, False, False, "worth it after 900 steps; the run has 1,000 steps"),
        (1.5, 300.0, True, False, "worth it after 900 steps; the run has 1,000 steps"),
        (1.01, 60.0, False, False, "1.01 x the steps per second after 60 s of compiling"),
        (1.01, 60.0, True, True, "1.01 x"),
        (0.8, 60.0, True, False, "0.80 x"),
    ],
)
def test_xla(speed, compile_seconds, now, chosen, worth):
    comparison = XlaComparison(sure(speed), 1.0, compile_seconds, planned_steps=1_000)
    found = choose_xla(comparison, now)
    assert found.recommended is chosen
    assert worth in found.worth
    assert choose_xla(None, now).recommended is now


def test_workers_change_only_where_loading_is_slow():
    times = {1: LoadTimes([10.0], 0.1), 2: LoadTimes([19.0], 0.1), 4: LoadTimes([19.2], 0.1)}

    def choose(now, steps_per_second):
        return choose_workers(times, now, cores=4, steps_per_second=steps_per_second).recommended

    assert choose(1, steps_per_second=5.0) == 1
    assert choose(1, steps_per_second=8.0) == 2
    assert choose(None, steps_per_second=50.0) is None
    assert choose(3, steps_per_second=50.0) == 3


@pytest.mark.parametrize(
    ("slowest", "now", "free_mb", "chosen"),
    [
        (0.01, 50, 10_000, 50),  # more than needed does no harm
        (5.0, 10, 10_000, 40),  # four stalls of ten steps
        (5.0, 10, 1_600, 20),  # as many as there is memory for
        (0.01, 50, 800, 10),
        (5.0, 10, None, 40),
    ],
)
def test_buffer_size(slowest, now, free_mb, chosen):
    found = choose_buffer_size(
        LoadTimes([10.0], slowest), now, workers=2, step_seconds=0.5, batch_mb=10.0, free_mb=free_mb
    )
    assert found.recommended == chosen
