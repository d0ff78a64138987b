import contextlib

import pytest

from myxtts.training.time_account import (
    BUCKETS,
    TimeAccount,
    advice,
    overheads,
    shares,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_every_second_is_in_one_bucket():
    clock = Clock()
    account = TimeAccount(clock)
    clock.now += 3
    with account.spending("compile"):
        clock.now += 5
    account.settle("host")
    for _ in range(4):
        with account.spending("data_wait"):
            clock.now += 0.25
        with account.spending("compute"):
            clock.now += 2
        clock.now += 0.5
    with account.spending("evaluation"):
        clock.now += 1
        with account.spending("checkpoint"):
            clock.now += 2
        clock.now += 1
    seconds = account.seconds()
    assert seconds == {
        "start_up": 3,
        "compile": 5,
        "data_wait": 1,
        "compute": 8,
        "host": 2,
        "evaluation": 2,
        "checkpoint": 2,
        "wall": clock.now - 100,
    }
    assert shares(seconds)["compute"] == pytest.approx(8 / 23)
    assert list(overheads(seconds, 0.5)) == [
        "compile",
        "padding",
        "start_up",
        "host",
        "evaluation",
        "checkpoint",
        "data_wait",
    ]


def test_time_continues_counting_after_an_error():
    clock = Clock()
    account = TimeAccount(clock)
    with contextlib.suppress(ValueError), account.spending("compute"):
        clock.now += 1
        raise ValueError
    clock.now += 1
    assert account.seconds()["start_up"] == 1


@pytest.mark.parametrize(
    ("bucket", "name", "remedy"),
    [
        ("data_wait", "waiting for data", "Raise data.buffer_size"),
        ("evaluation", "evaluation", "Raise evaluation.evaluate_every"),
        ("checkpoint", "saving checkpoints", "Raise saving.save_every"),
        ("compile", "tracing and compiling", "It happens once"),
    ],
)
def test_advice_names_the_largest_overhead_and_its_remedy(bucket, name, remedy):
    seconds = dict.fromkeys(BUCKETS, 1.0) | {bucket: 50.0, "wall": 100.0}
    (sentence,) = advice(seconds, 0.99, "raise data.buffer_size", 0)
    assert sentence.startswith(f"Most time not spent training: {name} (50.0%). {remedy}")


def test_padding_can_be_the_largest_overhead():
    seconds = dict.fromkeys(BUCKETS, 1.0) | {"compute": 90.0, "wall": 96.0}
    (sentence,) = advice(seconds, 0.5, "raise data.buffer_size", 0)
    assert "padding" in sentence
    assert "data.shape_count" in sentence


def test_compilations_after_warm_up_are_not_called_a_one_time_cost():
    seconds = dict.fromkeys(BUCKETS, 1.0) | {"compile": 50.0, "wall": 100.0}
    (once,) = advice(seconds, 0.99, "raise data.buffer_size", 0)
    (sentence,) = advice(seconds, 0.99, "raise data.buffer_size", 7)
    assert "once" in once
    assert "once" not in sentence
    assert "7" in sentence
    assert "data.batching" in sentence
