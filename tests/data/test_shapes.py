import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.config.config import TrainingConfig, XTTSConfig
from myxtts.data.diagnosis import clips_lasting, typical_lengths
from myxtts.data.shapes import (
    DEFAULT_EPOCHS,
    MAX_SHAPES,
    MAX_STEPS,
    MIN_STEPS,
    assign_shapes,
    describe_plan,
    load_shapes,
    nested_sizes,
    plan_shapes,
    run_length,
    save_plan,
)
from myxtts.errors import CheckpointError, ConfigError, DataError

CLIPS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 90)), min_size=1, max_size=12)


def cost_of_clip(tokens, frames):
    return frames + 0.3 * tokens + 0.01 * tokens * frames


def padded_cost(tokens, frames, chain):
    """What the clips cost when each goes into the first size that holds it."""
    total = 0.0
    for token_count, frame_count in zip(tokens, frames, strict=True):
        holding = next(size for size in chain if size[0] >= token_count and size[1] >= frame_count)
        total += float(cost_of_clip(*map(np.array, holding)))
    return total


def cheapest_chain(tokens, frames, most):
    """By trying every chain of sizes on the planner's grid."""
    rows = sorted({-(-count // 4) * 4 for count in tokens})
    columns = sorted({-(-count // 8) * 8 for count in frames})
    last = (rows[-1], columns[-1])
    sizes = [size for size in itertools.product(rows, columns) if size != last]
    chains = (
        [*chain, last]
        for length in range(most)
        for chain in itertools.combinations(sizes, length)
        if all(a[0] <= b[0] and a[1] <= b[1] for a, b in itertools.pairwise(chain))
    )
    return min(padded_cost(tokens, frames, chain) for chain in chains)


@settings(max_examples=60, deadline=None)
@given(CLIPS, st.integers(1, 3))
def test_the_sizes_are_the_cheapest_there_are(clips, most):
    tokens, frames = (np.array(lengths, np.int32) for lengths in zip(*clips, strict=True))
    sizes = nested_sizes(tokens, frames, cost_of_clip, most, multiples=(4, 8))[-1]
    assert len(sizes) <= most
    found = padded_cost(tokens, frames, [(size.tokens, size.frames) for size in sizes])
    assert np.isclose(found, cheapest_chain(tokens, frames, most))


@settings(max_examples=60, deadline=None)
@given(CLIPS, st.integers(1, 5))
def test_each_size_says_how_many_clips_it_adds(clips, most):
    tokens, frames = (np.array(lengths, np.int32) for lengths in zip(*clips, strict=True))
    for sizes in nested_sizes(tokens, frames, cost_of_clip, most, multiples=(4, 8)):
        taken = np.zeros(len(clips), bool)
        for size in sizes:
            fits = (tokens <= size.tokens) & (frames <= size.frames) & ~taken
            assert fits.sum() == size.clips
            taken |= fits
        assert taken.all()


def test_a_large_corpus_is_searched_on_a_coarser_grid():
    generator = np.random.default_rng(0)
    frames = generator.integers(50, 4_000, 20_000).astype(np.int32)
    tokens = (frames * generator.uniform(0.05, 0.25, frames.size)).astype(np.int32)
    sizes = nested_sizes(tokens, frames, cost_of_clip, 8, multiples=(4, 8))[-1]
    assert len(sizes) == 8
    assert sum(size.clips for size in sizes) == frames.size


HOUR = 3_600
LENGTHS = st.lists(st.integers(16, 400), min_size=1, max_size=30)


def like_ljspeech(count=13_100):
    clips = typical_lengths(count)
    return clips.token_counts, clips.frame_counts


def widely_spread(total_seconds):
    """Clips of 0.5 to 25 seconds, log-normal with a deviation of one."""
    generator = np.random.default_rng(0)
    seconds = np.exp(generator.normal(np.log(3), 1, 10_000))
    seconds = seconds[(seconds >= 0.5) & (seconds <= 25)]
    clips = clips_lasting(seconds[np.cumsum(seconds) <= total_seconds], generator)
    return clips.token_counts, clips.frame_counts


@settings(max_examples=60, deadline=None)
@given(LENGTHS, st.integers(1, 5), st.sampled_from([1, 2, 4]), st.integers(0, 99))
def test_every_clip_fits_its_shape(lengths, count, replicas, seed):
    frame_counts = np.array(lengths, np.int32)
    tokens = np.random.default_rng(seed).integers(3, 60, frame_counts.size).astype(np.int32)
    plan = plan_shapes(tokens, frame_counts, XTTSConfig(shape_count=count), replicas=replicas)
    assert len(plan.shapes) <= count
    assert plan.shares == replicas
    for index, (token_count, frame_count) in enumerate(zip(tokens, frame_counts, strict=True)):
        shape = plan.shapes[plan.shape_of_clip[index]]
        assert token_count <= shape.tokens
        assert frame_count <= shape.frames
    for shape in plan.shapes:
        assert shape.batch % replicas == 0
        assert shape.slots * replicas <= shape.batch * shape.tokens
    assert 0 < plan.valid_frame_ratio <= 1
    assert 0 < plan.valid_work_ratio <= 1


@pytest.mark.parametrize(("count", "least_frames"), [(8, 0.92), (16, 0.96)])
def test_little_is_wasted_on_a_corpus_like_ljspeech(count, least_frames):
    tokens, frames = like_ljspeech()
    plan = plan_shapes(tokens, frames, XTTSConfig(shape_count=count))
    assert len(plan.shapes) <= count
    assert plan.valid_frame_ratio >= least_frames
    assert plan.valid_work_ratio >= 0.97
    assert frames[plan.shape_of_clip < 0].sum() <= 0.001 * frames.sum()


@pytest.mark.parametrize("size", ["tiny", "normal"])
@pytest.mark.parametrize("total_seconds", [HOUR / 4, HOUR, 5 * HOUR])
def test_little_is_wasted_on_widely_spread_lengths(size, total_seconds):
    tokens, frames = widely_spread(total_seconds)
    plan = plan_shapes(tokens, frames, XTTSConfig(size=size))
    assert plan.valid_work_ratio >= 0.95


def test_steps_cost_about_the_same():
    tokens, frames = like_ljspeech()
    plan = plan_shapes(tokens, frames, XTTSConfig(shape_count=8, batch_size=64))
    batches = [shape.batch for shape in plan.shapes]
    assert batches == sorted(batches, reverse=True)
    assert batches[0] > 64 > batches[-1]
    assert np.mean([plan.shapes[index].batch for index in plan.shape_of_clip]) == pytest.approx(
        64, rel=0.05
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(4 * 880, 60_000))
def test_the_frame_budget_is_kept(budget):
    tokens, frames = like_ljspeech(500)
    plan = plan_shapes(tokens, frames, XTTSConfig(shape_count=6, frame_budget=budget))
    assert all(shape.batch * shape.frames <= budget for shape in plan.shapes)


def test_a_frame_budget_too_small_for_any_batch():
    tokens, frames = like_ljspeech(500)
    with pytest.raises(ConfigError, match=r"data\.frame_budget"):
        plan_shapes(tokens, frames, XTTSConfig(frame_budget=900))


def test_the_planner_takes_fewer_shapes_where_each_is_compiled():
    tokens, frames = like_ljspeech(3_000)
    free, compiled = (plan_shapes(tokens, frames, XTTSConfig(), xla=xla) for xla in (False, True))
    assert 1 <= len(compiled.shapes) < len(free.shapes) <= MAX_SHAPES
    longer = plan_shapes(tokens, frames, XTTSConfig(epochs=10_000), xla=True)
    assert len(longer.shapes) > len(compiled.shapes)


@pytest.mark.parametrize(("clips", "compiled", "free"), [(40, 1, 2), (200, 1, 4), (500, 1, 7)])
def test_a_small_corpus_gets_few_shapes(clips, compiled, free):
    tokens, frames = like_ljspeech(clips)
    for xla, count in ((True, compiled), (False, free)):
        assert len(plan_shapes(tokens, frames, XTTSConfig(), xla=xla).shapes) == count


def test_fixed_is_exactly_the_contract_shape():
    config = XTTSConfig(
        pad_to_fixed_length=True, max_text_length=50, max_mel_frames=300, batch_size=4
    )
    tokens, frames = np.array([10, 50, 51, 20]), np.array([100, 300, 100, 301])
    plan = plan_shapes(tokens, frames, config)
    assert [shape.padded for shape in plan.shapes] == [(4, 50, 300)]
    assert plan.shape_of_clip.tolist() == [0, 0, -1, -1]
    assert plan.rejected == {"over the length limits": 2}


def test_given_shapes_take_the_clips_that_fit():
    shapes = [(4, 20, 100), (4, 40, 200)]
    tokens, frames = np.array([20, 21, 10, 41]), np.array([100, 90, 150, 10])
    plan = assign_shapes(tokens, frames, shapes, XTTSConfig(), shares=1)
    assert plan.shape_of_clip.tolist() == [0, 1, 1, -1]


def test_batches_that_cannot_be_split_are_refused():
    tokens, frames = np.array([20]), np.array([100])
    config = XTTSConfig(batching="fixed", batch_size=6)
    with pytest.raises(ConfigError, match=r"data\.batch_size"):
        plan_shapes(tokens, frames, config, replicas=4)


def test_limits_that_nothing_fits():
    with pytest.raises(DataError, match=r"data\.max_text_length"):
        plan_shapes(np.array([30]), np.array([90]), XTTSConfig(max_text_length=10))


def test_the_table_counts_every_clip():
    tokens, frames = np.array([10, 20, 30]), np.array([100, 200, 300])
    config = XTTSConfig(shape_count=3)
    plan = plan_shapes(tokens, frames, config)
    table = describe_plan(plan, frames, config).splitlines()
    assert len(table) == 1 + 3 + 1
    assert table[-1].split()[:2] == ["all", "3"]


@pytest.mark.parametrize(("clips", "whole_epochs"), [(200, False), (500, True)])
def test_a_saved_plan_gives_the_same_shapes(tmp_path, clips, whole_epochs):
    tokens, frames = like_ljspeech(clips)
    config = XTTSConfig()
    plan = plan_shapes(tokens, frames, config)
    assert plan.whole_epochs == whole_epochs
    save_plan(plan, config, tmp_path / "shapes.json")
    saved = load_shapes(tmp_path / "shapes.json", config)
    again = assign_shapes(
        tokens, frames, saved.padded, config, shares=1, whole_epochs=saved.whole_epochs
    )
    assert again.shapes == plan.shapes
    np.testing.assert_array_equal(again.shape_of_clip, plan.shape_of_clip)
    np.testing.assert_array_equal(again.weights, plan.weights)


def test_accumulation_plans_for_the_clips_of_a_step(tmp_path):
    tokens, frames = like_ljspeech(3_000)
    whole, accumulated = (
        XTTSConfig(batch_size=size, gradient_accumulation_steps=steps, frame_budget=budget)
        for size, steps, budget in ((112, 1, 60_000), (28, 4, 15_000))
    )
    plans = [plan_shapes(tokens, frames, config) for config in (whole, accumulated)]
    assert [shape.tokens for shape in plans[0].shapes] == [
        shape.tokens for shape in plans[1].shapes
    ]
    for shape in plans[1].shapes:
        assert shape.batch % 4 == 0
        assert shape.batch // 4 * shape.frames <= 15_000
    (_, *rows, _) = describe_plan(plans[1], frames, accumulated).splitlines()
    assert [int(row.split()[4]) for row in rows] == [it.batch // 4 for it in plans[1].shapes]


@pytest.mark.parametrize(
    "change",
    [{"batch_size": 8}, {"batching": "dynamic"}, {"frame_budget": 9_000}, {"shape_count": 2}],
)
def test_other_settings_have_other_shapes(tmp_path, change):
    tokens, frames = like_ljspeech(200)
    save_plan(plan_shapes(tokens, frames, XTTSConfig()), XTTSConfig(), tmp_path / "shapes.json")
    assert load_shapes(tmp_path / "shapes.json", XTTSConfig(**change)) is None
    assert load_shapes(tmp_path / "shapes.json", XTTSConfig(max_steps=7)) is not None


@pytest.mark.parametrize("text", ['{"shapes": [{"batch": 3}]}', '{"shapes": []}', "[", "{}"])
def test_a_broken_plan_is_named(tmp_path, text):
    (tmp_path / "shapes.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"shapes\.json"):
        load_shapes(tmp_path / "shapes.json", XTTSConfig())


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.integers(1, 6))
def test_no_shape_is_empty_and_frames_are_whole_positions(lengths, count):
    frames = np.array(lengths, np.int32)
    config = XTTSConfig(shape_count=count)
    plan = plan_shapes(frames // 6 + 1, frames, config)
    for index, shape in enumerate(plan.shapes):
        assert plan.clips_of(index).size > 0
        assert shape.frames % config.model.frames_per_position == 0


def test_clips_that_are_left_out_make_no_shape_longer():
    tokens, frames = np.array([20, 300]), np.array([100, 3_000])
    (shape,) = plan_shapes(tokens, frames, XTTSConfig(batching="fixed")).shapes
    assert shape.frames == 104


@pytest.mark.parametrize(
    ("settings", "batches", "steps", "epochs"),
    [
        ({"max_steps": 7}, 4, 7, 1.75),
        ({"epochs": 3}, 4, 12, 3),
        ({"max_steps": 7, "epochs": 3}, 4, 7, 1.75),
        # What is asked for is done, however short or long.
        ({"max_steps": 10 * MAX_STEPS}, 4, 10 * MAX_STEPS, 2.5 * MAX_STEPS),
        ({"epochs": 1}, 10 * MAX_STEPS, 10 * MAX_STEPS, 1),
    ],
)
def test_a_length_that_is_asked_for(settings, batches, steps, epochs):
    length = run_length(TrainingConfig(**settings), batches)
    assert (length.steps, length.epochs) == (steps, epochs)


@pytest.mark.parametrize(
    ("batches", "steps", "epochs"),
    [(4, MIN_STEPS, 1_000), (82, 8_200, DEFAULT_EPOCHS), (40_000, MAX_STEPS, 5)],
)
def test_the_default_grows_with_the_corpus_within_bounds(batches, steps, epochs):
    length = run_length(TrainingConfig(), batches)
    assert (length.steps, length.epochs) == (steps, epochs)


def test_at_the_bounds_the_default_does_not_jump():
    for bound in (MIN_STEPS, MAX_STEPS):
        batches = bound // DEFAULT_EPOCHS
        around = [run_length(TrainingConfig(), batches + more).steps for more in (-1, 0, 1)]
        assert around == sorted(around)
        assert bound in around
        assert around[-1] - around[0] <= 2 * DEFAULT_EPOCHS
