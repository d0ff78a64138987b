"""Lengths become one of a few shapes, by nothing but themselves."""

import random

import pytest

from myxtts.models.sampler import POSITION_SIZES, batches, row_counts, size_for


@pytest.mark.parametrize(("length", "size"), [(1, 48), (64, 64), (65, 112), (1_024, 1_024)])
def test_the_smallest_size_that_holds_it(length, size):
    assert size_for(length, POSITION_SIZES) == size


def test_what_is_longer_than_all_has_its_own_size():
    assert size_for(5_000, POSITION_SIZES) == 5_000


def test_batches_have_declared_shapes_and_hold_everything_once():
    generator = random.Random(1)
    lengths = [generator.randint(1, 1_024) for _ in range(101)]
    shapes, seen = set(), []
    for size, items in batches(range(len(lengths)), lengths.__getitem__, POSITION_SIZES):
        assert all(size_for(lengths[item], POSITION_SIZES) == size for item in items)
        shapes.add((len(items), size))
        seen += items
    assert sorted(seen) == list(range(len(lengths)))
    assert shapes <= {(rows, size) for size in POSITION_SIZES for rows in row_counts(size)}
    assert any(rows > 1 for rows, _ in shapes)
