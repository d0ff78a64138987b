import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.config.config import TrainingConfig, XTTSConfig
from myxtts.data.shapes import (
    DEFAULT_EPOCHS,
    MAX_SHAPES,
    MAX_STEPS,
    MIN_STEPS,
    Clips,
    assign_shapes,
    balanced_order,
    balanced_weights,
    load_shapes,
    nested_sizes,
    plan_shapes,
    run_length,
    save_plan,
    slots_of_share,
    strata_by_row,
    with_recommended_batch_size,
)
from myxtts.data.statistics import clips_lasting, typical_lengths
from myxtts.errors import CheckpointError, ConfigError, DataError

PAIRS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 90)), min_size=1, max_size=12)
LENGTHS = st.lists(st.integers(16, 400), min_size=1, max_size=30)
TOKENS = st.lists(st.integers(3, 200), min_size=1, max_size=60)
HOUR = 3_600


def clips_of(tokens, frames, speakers=None, languages=None) -> Clips:
    zeros = np.zeros(len(tokens), np.int32)
    columns = tokens, frames, zeros if speakers is None else speakers, languages
    return Clips(*(np.array(zeros if it is None else it, np.int32) for it in columns))


def cost_of_clip(tokens, frames):
    return frames + 0.3 * tokens + 0.01 * tokens * frames


def padded_cost(tokens, frames, chain):
    """Return what the clips cost when each goes into the first size that fits."""
    total = 0.0
    for token_count, frame_count in zip(tokens, frames, strict=True):
        fitting = next(size for size in chain if size[0] >= token_count and size[1] >= frame_count)
        total += float(cost_of_clip(*map(np.array, fitting)))
    return total


def cheapest_chain(tokens, frames, count):
    """Try every chain of sizes on the planner's grid."""
    rows = sorted({-(-count // 4) * 4 for count in tokens})
    columns = sorted({-(-count // 8) * 8 for count in frames})
    last = (rows[-1], columns[-1])
    sizes = [size for size in itertools.product(rows, columns) if size != last]
    chains = (
        [*chain, last]
        for length in range(count)
        for chain in itertools.combinations(sizes, length)
        if all(a[0] <= b[0] and a[1] <= b[1] for a, b in itertools.pairwise(chain))
    )
    return min(padded_cost(tokens, frames, chain) for chain in chains)


@settings(max_examples=60, deadline=None)
@given(PAIRS, st.integers(1, 3))
def test_nested_sizes_are_the_cheapest(clips, count):
    tokens, frames = (np.array(lengths, np.int32) for lengths in zip(*clips, strict=True))
    plans = list(
        itertools.islice(nested_sizes(tokens, frames, cost_of_clip, multiples=(4, 8)), count)
    )
    assert len(plans[-1]) <= count
    found = padded_cost(tokens, frames, [(size.tokens, size.frames) for size in plans[-1]])
    assert np.isclose(found, cheapest_chain(tokens, frames, count))
    for sizes in plans:
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
    plans = nested_sizes(tokens, frames, cost_of_clip, multiples=(4, 8))
    *_, sizes = itertools.islice(plans, 8)
    assert len(sizes) == 8
    assert sum(size.clips for size in sizes) == frames.size


@settings(max_examples=60, deadline=None)
@given(LENGTHS, st.integers(1, 5), st.sampled_from([1, 2, 4]), st.integers(0, 99))
def test_every_clip_fits_its_shape(lengths, count, replicas, seed):
    tokens = np.random.default_rng(seed).integers(3, 60, len(lengths))
    clips, config = clips_of(tokens, lengths), XTTSConfig(shape_count=count)
    plan = plan_shapes(clips, config, replicas=replicas)
    assert len(plan.shapes) <= count
    assert plan.shares == replicas
    for clip, index in enumerate(plan.shape_of_clip):
        assert clips.token_counts[clip] <= plan.shapes[index].tokens
        assert clips.frame_counts[clip] <= plan.shapes[index].frames
    for index, shape in enumerate(plan.shapes):
        assert plan.clips_of(index).size > 0
        assert shape.frames % config.model.frames_per_position == 0
        assert shape.batch % replicas == 0
        assert shape.slots * replicas <= shape.batch * shape.tokens
    assert 0 < plan.valid_frame_ratio <= 1
    assert 0 < plan.valid_work_ratio <= 1


@pytest.mark.parametrize(("count", "min_frames"), [(8, 0.92), (16, 0.96)])
def test_little_is_wasted_on_a_corpus_like_ljspeech(count, min_frames):
    clips = typical_lengths(13_100)
    plan = plan_shapes(clips, XTTSConfig(shape_count=count))
    assert len(plan.shapes) <= count
    assert plan.valid_frame_ratio >= min_frames
    assert plan.valid_work_ratio >= 0.97
    frames = clips.frame_counts
    assert frames[plan.shape_of_clip < 0].sum() <= 0.001 * frames.sum()


@pytest.mark.parametrize("size", ["tiny", "normal"])
@pytest.mark.parametrize("total_seconds", [HOUR / 4, HOUR, 5 * HOUR])
def test_little_is_wasted_on_widely_spread_lengths(size, total_seconds):
    """Clips of 0.5 to 25 seconds, log-normal with a deviation of one."""
    generator = np.random.default_rng(0)
    seconds = np.exp(generator.normal(np.log(3), 1, 10_000))
    seconds = seconds[(seconds >= 0.5) & (seconds <= 25)]
    clips = clips_lasting(seconds[np.cumsum(seconds) <= total_seconds], generator)
    assert plan_shapes(clips, XTTSConfig(size=size)).valid_work_ratio >= 0.95


def test_steps_cost_about_the_same():
    plan = plan_shapes(typical_lengths(13_100), XTTSConfig(shape_count=8, batch_size=64))
    batches = [shape.batch for shape in plan.shapes]
    assert batches == sorted(batches, reverse=True)
    assert batches[0] > 64 > batches[-1]
    assert np.mean([plan.shapes[index].batch for index in plan.shape_of_clip]) == pytest.approx(
        64, rel=0.05
    )


@pytest.mark.parametrize(
    ("error", "name", "tokens", "changes", "replicas"),
    [
        (ConfigError, "batch_size", 20, {"batching": "fixed", "batch_size": 6}, 4),
        (DataError, "max_text_length", 30, {"max_text_length": 10}, 1),
    ],
)
def test_impossible_settings_are_named(error, name, tokens, changes, replicas):
    with pytest.raises(error, match=rf"data\.{name}"):
        plan_shapes(clips_of([tokens], [100]), XTTSConfig(**changes), replicas=replicas)


def test_fewer_shapes_are_planned_where_each_is_compiled():
    clips = typical_lengths(3_000)
    free, compiled = (plan_shapes(clips, XTTSConfig(), xla=xla) for xla in (False, True))
    assert 1 <= len(compiled.shapes) < len(free.shapes) <= MAX_SHAPES
    longer = plan_shapes(clips, XTTSConfig(epochs=10_000), xla=True)
    assert len(longer.shapes) > len(compiled.shapes)


@pytest.mark.parametrize(("clips", "compiled", "free"), [(40, 1, 2), (200, 1, 4), (500, 1, 7)])
def test_a_small_corpus_gets_few_shapes(clips, compiled, free):
    for xla, count in ((True, compiled), (False, free)):
        plan = plan_shapes(typical_lengths(clips), XTTSConfig(), xla=xla)
        assert len(plan.shapes) == count


def test_fixed_is_exactly_the_contract_shape():
    config = XTTSConfig(
        pad_to_fixed_length=True, max_text_length=50, max_mel_frames=300, batch_size=4
    )
    plan = plan_shapes(clips_of([10, 50, 51, 20], [100, 300, 100, 301]), config)
    assert [shape.padded for shape in plan.shapes] == [(4, 50, 300)]
    assert plan.shape_of_clip.tolist() == [0, 0, -1, -1]
    assert plan.rejected == {"over the length limits": 2}


def test_rejected_clips_make_no_shape_longer():
    clips = clips_of([20, 300], [100, 3_000])
    (shape,) = plan_shapes(clips, XTTSConfig(batching="fixed")).shapes
    assert shape.frames == 104


def test_given_shapes_take_the_clips_that_fit():
    clips = clips_of([20, 21, 10, 41], [100, 90, 150, 10])
    plan = assign_shapes(clips, [(4, 20, 100), (4, 40, 200)], XTTSConfig(), shares=1)
    assert plan.shape_of_clip.tolist() == [0, 1, 1, -1]


@pytest.mark.parametrize(("count", "whole_epochs"), [(200, False), (500, True)])
def test_a_saved_plan_gives_the_same_shapes(tmp_path, count, whole_epochs):
    clips, config = typical_lengths(count), XTTSConfig()
    plan = plan_shapes(clips, config)
    assert plan.whole_epochs == whole_epochs
    save_plan(plan, config, tmp_path / "shapes.json")
    padded, saved_whole_epochs = load_shapes(tmp_path / "shapes.json", config)
    again = assign_shapes(clips, padded, config, shares=1, whole_epochs=saved_whole_epochs)
    assert again.shapes == plan.shapes
    assert again.fingerprint() == plan.fingerprint()
    np.testing.assert_array_equal(again.weights, plan.weights)


@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": 8},
        {"batching": "dynamic"},
        {"shape_count": 2},
        {"speaker_balance": 0.6},
        {"language_balance": 1},
    ],
)
def test_a_saved_plan_is_for_its_settings(tmp_path, change):
    file = tmp_path / "shapes.json"
    save_plan(plan_shapes(typical_lengths(200), XTTSConfig()), XTTSConfig(), file)
    assert load_shapes(file, XTTSConfig(**change)) is None
    assert load_shapes(file, XTTSConfig(max_steps=7)) is not None


@pytest.mark.parametrize("text", ['{"shapes": [{"batch": 3}]}', '{"shapes": []}', "[", "{}"])
def test_a_broken_plan_is_named(tmp_path, text):
    (tmp_path / "shapes.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"shapes\.json"):
        load_shapes(tmp_path / "shapes.json", XTTSConfig())


def test_accumulation_plans_for_the_clips_of_a_step():
    clips = typical_lengths(3_000)
    whole, accumulated = (
        plan_shapes(clips, XTTSConfig(batch_size=size, gradient_accumulation_steps=steps))
        for size, steps in ((112, 1), (28, 4))
    )
    assert [shape.tokens for shape in whole.shapes] == [it.tokens for it in accumulated.shapes]
    for shape, alone in zip(accumulated.shapes, whole.shapes, strict=True):
        assert shape.batch % 4 == 0
        assert shape.batch == pytest.approx(alone.batch, abs=16)


@pytest.mark.parametrize(
    ("settings", "batches", "steps", "epochs"),
    [
        ({"max_steps": 7}, 4, 7, 1.75),
        ({"epochs": 3}, 4, 12, 3),
        ({"max_steps": 7, "epochs": 3}, 4, 7, 1.75),
        ({"max_steps": 10 * MAX_STEPS}, 4, 10 * MAX_STEPS, 2.5 * MAX_STEPS),
        ({"epochs": 1}, 10 * MAX_STEPS, 10 * MAX_STEPS, 1),
        # The default grows with the corpus, within bounds.
        ({}, 4, MIN_STEPS, 1_000),
        ({}, 82, 8_200, DEFAULT_EPOCHS),
        ({}, 40_000, MAX_STEPS, 5),
    ],
)
def test_the_length_of_a_run(settings, batches, steps, epochs):
    length = run_length(TrainingConfig(**settings), batches)
    assert (length.steps, length.epochs) == (steps, epochs)


@pytest.mark.parametrize(
    ("clips", "frames", "config", "expected"),
    [
        (1_000, 400, XTTSConfig(), 16),
        (16, 400, XTTSConfig(), 16),
        (10, 400, XTTSConfig(), 8),
        (3, 400, XTTSConfig(), 4),
        (10, 400, XTTSConfig(batch_size=2), 2),
        (1_000, 400, XTTSConfig(gradient_accumulation_steps=4), 16),
        (40, 400, XTTSConfig(gradient_accumulation_steps=4), 8),
        (1_000, 3_000, XTTSConfig(), 8),
        (10_000, 400, XTTSConfig(batch_size=48), 48),
    ],
)
def test_recommended_batches_suit_the_corpus(clips, frames, config, expected):
    chosen, batch = with_recommended_batch_size(clips_of([50] * clips, [frames] * clips), config)
    assert batch.size == expected
    wanted = config.data.batch_size if config.has_own_batch_size else expected
    assert chosen.data.batch_size == wanted


@settings(max_examples=80, deadline=None)
@given(TOKENS, st.sampled_from([(4, 1), (4, 2), (4, 4), (6, 3), (8, 2)]), st.integers(0, 9))
def test_strata_hold_every_clip_and_no_draw_overflows_the_slots(tokens, batch_and_shares, seed):
    batch, shares = batch_and_shares
    token_counts = np.array(tokens, np.int32)
    rows = strata_by_row(np.arange(len(tokens), dtype=np.int32), token_counts, batch)
    assert len(rows) == batch
    together = np.concatenate(rows)
    assert set(together.tolist()) == set(range(len(tokens)))
    if len(tokens) >= batch:
        assert together.size == len(tokens)
        assert max(map(len, rows)) - min(map(len, rows)) <= 1
    drawn = np.array([np.random.default_rng(seed).choice(row) for row in rows])
    totals = token_counts[drawn].reshape(shares, -1).sum(axis=1)
    assert totals.max() <= slots_of_share(rows, token_counts, shares)


def test_the_bound_on_tokens_hardly_exceeds_the_mean():
    generator = np.random.default_rng(0)
    token_counts = generator.integers(60, 121, 1_000).astype(np.int32)
    rows = strata_by_row(np.arange(1_000, dtype=np.int32), token_counts, 16)
    assert slots_of_share(rows, token_counts, 1) < 1.03 * 16 * token_counts.mean()


def test_balanced_halves_and_quarters_have_the_same_sum():
    for count in range(1, 65):
        assert sorted(balanced_order(count)) == list(range(count))
    for parts in (2, 4):
        sums = np.array(balanced_order(16)).reshape(parts, -1).sum(axis=1)
        assert sums.max() - sums.min() <= 2


def weights_of(speakers, languages=None, **balance):
    clips = clips_of(speakers, speakers, speakers, languages)
    return balanced_weights(clips, np.ones(len(speakers), bool), XTTSConfig(**balance))


@pytest.mark.parametrize("balance", [0.3, 0.5, 1.0])
def test_weights_are_a_power_of_the_number_of_clips(balance):
    speakers = [0] * 100 + [1] * 10 + [2]
    weights = weights_of(speakers, speaker_balance=balance)
    wanted = np.array([100, 10, 1]) ** (1 - balance)
    found = np.bincount(speakers, weights) / weights.sum()
    np.testing.assert_allclose(found, wanted / wanted.sum())
    assert weights.mean() == pytest.approx(1)


def test_languages_are_balanced_after_their_speakers():
    speakers = [0] * 50 + [1] * 10 + [2] * 20 + [3] * 5
    languages = [0] * 80 + [1] * 5
    weights = weights_of(speakers, languages, speaker_balance=1, language_balance=1)
    total = weights.sum()
    np.testing.assert_allclose(np.bincount(languages, weights) / total, [1 / 2, 1 / 2])
    np.testing.assert_allclose(np.bincount(speakers, weights) / total, [1 / 6, 1 / 6, 1 / 6, 1 / 2])


@pytest.mark.parametrize(
    ("speakers", "balance"),
    [([0] * 9 + [1], {}), ([3] * 9, {"speaker_balance": 1}), ([0, 1, 2], {"speaker_balance": 0.5})],
)
def test_equal_weights_are_none(speakers, balance):
    assert weights_of(speakers, **balance) is None


def test_rejected_clips_have_no_weight():
    clips = clips_of([9] * 6, [99] * 6, speakers=[0, 0, 0, 1, 1, 1])
    used = np.array([True, False, False, True, True, True])
    weights = balanced_weights(clips, used, XTTSConfig(speaker_balance=1))
    np.testing.assert_allclose(weights, [2, 0, 0, 2 / 3, 2 / 3, 2 / 3])
