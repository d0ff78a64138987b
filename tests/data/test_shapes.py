import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.config.config import XTTSConfig
from myxtts.data.shapes import Shape, assign_shapes, best_edges, describe_plan, plan_shapes
from myxtts.errors import DataError

LENGTHS = st.lists(st.integers(1, 400), min_size=1, max_size=30)


def padded_frames(frame_counts, edges) -> int:
    return int(np.asarray(edges)[np.searchsorted(edges, frame_counts)].sum())


@settings(max_examples=60, deadline=None)
@given(LENGTHS, st.integers(1, 4))
def test_edges_are_optimal(lengths, count):
    frame_counts = np.array(lengths, np.int32)
    edges = best_edges(frame_counts, count)
    assert len(edges) <= count
    candidates = sorted({-(-length // 16) * 16 for length in lengths})
    least = min(
        padded_frames(frame_counts, [*chosen, candidates[-1]])
        for size in range(count)
        for chosen in itertools.combinations(candidates[:-1], size)
    )
    assert padded_frames(frame_counts, edges) == least


@settings(max_examples=60, deadline=None)
@given(LENGTHS, st.integers(1, 5), st.integers(0, 99))
def test_every_clip_fits_its_shape(lengths, count, seed):
    frame_counts = np.array(lengths, np.int32)
    tokens = np.random.default_rng(seed).integers(3, 60, frame_counts.size).astype(np.int32)
    plan = plan_shapes(tokens, frame_counts, XTTSConfig(shape_count=count))
    assert len(plan.shapes) <= count
    for index, (token_count, frame_count) in enumerate(zip(tokens, frame_counts, strict=True)):
        shape = plan.shapes[plan.shape_of_clip[index]]
        assert token_count <= shape.tokens
        assert frame_count <= shape.frames
    assert 0 < plan.valid_frame_ratio <= 1


def test_fixed_is_exactly_the_contract_shape():
    config = XTTSConfig(
        pad_to_fixed_length=True, max_text_length=50, max_mel_frames=300, batch_size=4
    )
    tokens, frames = np.array([10, 50, 51, 20]), np.array([100, 300, 100, 301])
    plan = plan_shapes(tokens, frames, config)
    assert plan.shapes == (Shape(4, 50, 300),)
    assert plan.shape_of_clip.tolist() == [0, 0, -1, -1]
    assert plan.rejected == {"over the length limits": 2}


def test_given_shapes_take_the_clips_that_fit():
    shapes = (Shape(4, 20, 100), Shape(4, 40, 200))
    tokens, frames = np.array([20, 21, 10, 41]), np.array([100, 90, 150, 10])
    assert assign_shapes(tokens, frames, shapes).shape_of_clip.tolist() == [0, 1, 1, -1]


def test_limits_that_nothing_fits():
    with pytest.raises(DataError, match=r"no clip fits data\.max_text_length = 10"):
        plan_shapes(np.array([30]), np.array([90]), XTTSConfig(max_text_length=10))


def test_the_table_counts_every_clip():
    tokens, frames = np.array([10, 20, 30]), np.array([100, 200, 300])
    plan = plan_shapes(tokens, frames, XTTSConfig(shape_count=3))
    table = describe_plan(plan, frames).splitlines()
    assert len(table) == 1 + 3 + 1
    assert table[-1].split()[:2] == ["all", "3"]
