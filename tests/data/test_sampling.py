import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.config.config import XTTSConfig
from myxtts.data.corpus import open_corpus
from myxtts.data.diagnosis import measured_ratios, typical_lengths
from myxtts.data.sampling import (
    ClipLabels,
    balance_halves,
    balanced_order,
    balanced_weights,
    by_text_length,
    draw_rows,
    slots_by_shares,
    slots_of_share,
    split_by_weight,
    strata_by_row,
)
from myxtts.data.schedule import Clips, Schedule
from myxtts.data.shapes import assign_shapes, describe_plan, load_shapes, plan_shapes, save_plan

TOKENS = st.lists(st.integers(3, 200), min_size=1, max_size=60)


@settings(max_examples=80, deadline=None)
@given(TOKENS, st.integers(1, 9))
def test_every_clip_belongs_to_a_row(tokens, batch):
    token_counts = np.array(tokens, np.int32)
    clips = np.arange(token_counts.size, dtype=np.int32)[::-1]
    rows = strata_by_row(clips, token_counts, batch)
    assert len(rows) == batch
    together = np.concatenate(rows)
    assert set(together.tolist()) == set(clips.tolist())
    if clips.size >= batch:
        assert together.size == clips.size
        assert max(map(len, rows)) - min(map(len, rows)) <= 1


@settings(max_examples=80, deadline=None)
@given(TOKENS, st.sampled_from([(4, 1), (4, 2), (4, 4), (6, 3), (8, 2)]), st.integers(0, 9))
def test_no_draw_overflows_its_slots(tokens, batch_and_shares, seed):
    batch, shares = batch_and_shares
    token_counts = np.array(tokens, np.int32)
    rows = strata_by_row(np.arange(token_counts.size, dtype=np.int32), token_counts, batch)
    drawn = np.array([np.random.default_rng(seed).choice(row) for row in rows])
    totals = token_counts[drawn].reshape(shares, -1).sum(axis=1)
    assert totals.max() <= slots_of_share(rows, token_counts, shares)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 64))
def test_the_order_is_one_of_all_numbers(count):
    assert sorted(balanced_order(count)) == list(range(count))


def test_halves_and_quarters_weigh_the_same():
    order = np.array(balanced_order(16))
    for parts in (2, 4):
        sums = order.reshape(parts, -1).sum(axis=1)
        assert sums.max() - sums.min() <= 2


def test_the_bound_hardly_exceeds_the_mean():
    generator = np.random.default_rng(0)
    token_counts = generator.integers(60, 121, 1_000).astype(np.int32)
    rows = strata_by_row(np.arange(1_000, dtype=np.int32), token_counts, 16)
    assert slots_of_share(rows, token_counts, 1) < 1.03 * 16 * token_counts.mean()


@settings(max_examples=80, deadline=None)
@given(TOKENS, st.sampled_from([2, 4, 6, 8]), st.integers(0, 9))
def test_evening_out_moves_clips_and_overflows_nothing(tokens, batch, seed):
    generator = np.random.default_rng(seed)
    token_counts = np.array(tokens, np.int32)
    frame_counts = (token_counts * generator.uniform(4, 8, token_counts.size)).astype(np.int32)
    rows = strata_by_row(np.arange(token_counts.size, dtype=np.int32), token_counts, batch)
    room = slots_by_shares(rows, token_counts)
    drawn = np.array([generator.choice(row) for row in rows])
    order = balance_halves(drawn, frame_counts, token_counts, room)
    assert sorted(order) == sorted(drawn)
    for shares, slots in room.items():
        assert token_counts[order].reshape(shares, -1).sum(axis=1).max() <= slots

    def imbalance(clips):
        first, second = frame_counts[clips].reshape(2, -1).sum(axis=1, dtype=np.int64)
        return abs(first - second)

    assert imbalance(order) <= imbalance(drawn)


WEIGHTS = st.sampled_from([1e-6, 0.01, 0.5, 1.0, 2.0, 3.7, 100.0])


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(3, 200), WEIGHTS), min_size=1, max_size=60),
    st.integers(1, 9),
    st.integers(1, 20),
    st.floats(0, 1, exclude_max=True),
)
def test_each_row_hears_its_stratum_by_weight(clips_and_weights, batch, count, offset):
    token_counts, weights = (np.array(column) for column in zip(*clips_and_weights, strict=True))
    ordered = by_text_length(np.arange(weights.size), token_counts)
    strata = strata_by_row(np.arange(weights.size), token_counts, batch, weights)
    batches = draw_rows(ordered, weights[ordered], (count, batch), offset, np.random.default_rng(0))
    assert batches.shape == (count, batch)
    for row, stratum in zip(batches.T, strata, strict=True):
        assert set(row) <= set(stratum)
    copies = np.bincount(batches.ravel(), minlength=weights.size)
    expected = weights / weights.sum() * count * batch
    assert (np.abs(copies - expected) < 1 + 1e-9).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(WEIGHTS, min_size=1, max_size=30), st.integers(1, 200))
def test_parts_are_right_on_average(weights, total):
    weights = np.array(weights)
    offsets = (np.arange(500) + 0.5) / 500
    parts = np.array([split_by_weight(weights, total, offset) for offset in offsets])
    assert (parts.sum(axis=1) == total).all()
    np.testing.assert_allclose(parts.mean(axis=0), total * weights / weights.sum(), atol=0.01)


# Four speakers of two languages, one of whom has nearly everything.
CLIPS_OF_SPEAKERS = {0: 2_400, 1: 500, 2: 80, 3: 20}
LANGUAGE_OF_SPEAKER = np.array([0, 0, 1, 1], np.int32)


def uneven_clips():
    """Speakers differ in how long their clips are, too, so each has other shapes than the next."""
    lengths = typical_lengths(sum(CLIPS_OF_SPEAKERS.values()))
    ranks = np.argsort(lengths.frame_counts + np.random.default_rng(1).normal(0, 300, 3_000))
    speakers = np.empty(3_000, np.int32)
    speakers[ranks] = np.repeat(list(CLIPS_OF_SPEAKERS), list(CLIPS_OF_SPEAKERS.values()))
    return lengths._replace(speakers=speakers, languages=LANGUAGE_OF_SPEAKER[speakers])


def schedule_of(clips, config, *, replicas=1):
    plan = plan_shapes(
        clips.token_counts, clips.frame_counts, config, replicas=replicas, labels=clips.labels
    )
    return plan, Schedule(clips, plan, config)


def epoch_batches(schedule, epoch):
    first = epoch * schedule.batches_per_epoch
    return [schedule.batch_at(first + number) for number in range(schedule.batches_per_epoch)]


def heard(schedule, epochs):
    return np.concatenate(
        [batch.clips for epoch in range(epochs) for batch in epoch_batches(schedule, epoch)]
    )


def shares(groups):
    return np.bincount(groups) / groups.size


def shares_by_weight(groups, weights):
    return np.bincount(groups, weights) / weights.sum()


def weights_of(speakers, languages, **balance):
    labels = ClipLabels(np.array(speakers, np.int32), np.array(languages, np.int32))
    return labels, balanced_weights(
        labels, np.ones(len(speakers), bool), XTTSConfig(**balance).data
    )


@pytest.mark.parametrize("balance", [0.3, 0.5, 1.0])
def test_shares_go_with_a_power_of_the_number_of_clips(balance):
    speakers = [0] * 100 + [1] * 10 + [2]
    labels, weights = weights_of(speakers, [0] * 111, speaker_balance=balance)
    wanted = np.array([100, 10, 1]) ** (1 - balance)
    np.testing.assert_allclose(shares_by_weight(labels.speakers, weights), wanted / wanted.sum())
    assert weights.mean() == pytest.approx(1)


def test_languages_are_balanced_after_their_speakers():
    speakers = [0] * 50 + [1] * 10 + [2] * 20 + [3] * 5
    languages = [0] * 80 + [1] * 5
    labels, weights = weights_of(speakers, languages, speaker_balance=1, language_balance=1)
    np.testing.assert_allclose(shares_by_weight(labels.languages, weights), [1 / 2, 1 / 2])
    np.testing.assert_allclose(
        shares_by_weight(labels.speakers, weights), [1 / 6, 1 / 6, 1 / 6, 1 / 2]
    )


@pytest.mark.parametrize(
    ("speakers", "balance"),
    [([0] * 9 + [1], {}), ([3] * 9, {"speaker_balance": 1}), ([0, 1, 2], {"speaker_balance": 0.5})],
)
def test_where_nothing_is_to_balance_there_are_no_weights(speakers, balance):
    assert weights_of(speakers, [0] * len(speakers), **balance)[1] is None


def test_clips_that_are_left_out_count_for_nothing():
    labels = ClipLabels(np.array([0, 0, 0, 1, 1, 1], np.int32), np.zeros(6, np.int32))
    used = np.array([True, False, False, True, True, True])
    weights = balanced_weights(labels, used, XTTSConfig(speaker_balance=1).data)
    np.testing.assert_allclose(weights, [2, 0, 0, 2 / 3, 2 / 3, 2 / 3])


@pytest.mark.parametrize("batching", ["bucketed", "fixed", "dynamic"])
@pytest.mark.parametrize("balance", [0.5, 1.0])
def test_every_speaker_is_heard_in_its_share(batching, balance):
    clips = uneven_clips()
    _, schedule = schedule_of(clips, XTTSConfig(batching=batching, speaker_balance=balance))
    wanted = np.array(list(CLIPS_OF_SPEAKERS.values())) ** (1 - balance)
    found = shares(clips.speakers[heard(schedule, 4)])
    np.testing.assert_allclose(found, wanted / wanted.sum(), rtol=0.03)


def test_every_language_is_heard_in_its_share():
    clips = uneven_clips()
    _, schedule = schedule_of(clips, XTTSConfig(language_balance=1))
    np.testing.assert_allclose(shares(clips.languages[heard(schedule, 4)]), [0.5, 0.5], rtol=0.02)


@pytest.mark.parametrize("batching", ["bucketed", "fixed", "dynamic"])
def test_a_clip_comes_as_often_as_it_weighs(batching):
    clips = uneven_clips()
    plan, schedule = schedule_of(clips, XTTSConfig(batching=batching, speaker_balance=0.7))
    for epoch in range(2):
        batches = epoch_batches(schedule, epoch)
        copies = np.bincount(np.concatenate([it.clips for it in batches]), minlength=3_000)
        drawn_of_shape = np.bincount(plan.shape_of_clip, copies, minlength=len(plan.shapes))
        weight_of_shape = np.bincount(plan.shape_of_clip, plan.weights)
        expected = plan.weights * (drawn_of_shape / weight_of_shape)[plan.shape_of_clip]
        assert np.abs(copies - expected).max() < 1


def test_the_clips_of_a_large_speaker_take_turns():
    clips = uneven_clips()
    plan, schedule = schedule_of(clips, XTTSConfig(batching="fixed", speaker_balance=1))
    large = np.flatnonzero(clips.speakers == 0)
    weight = plan.weights[large[0]]
    assert 0.2 < weight < 0.4
    first, second = (
        {int(clip) for batch in epoch_batches(schedule, epoch) for clip in batch.clips}
        for epoch in range(2)
    )
    # A third of these clips is heard in an epoch; by chance a third of those would come again.
    again = first & second & set(large.tolist())
    assert len(again) < 0.05 * large.size
    assert np.isin(large, heard(schedule, 6)).all()


VOICES = st.lists(
    st.tuples(st.integers(3, 60), st.integers(16, 300), st.sampled_from([0, 0, 0, 0, 1, 2])),
    min_size=1,
    max_size=40,
).map(lambda rows: [np.array(column, np.int32) for column in zip(*rows, strict=True)])


@settings(max_examples=60, deadline=None)
@given(
    VOICES,
    st.sampled_from(["bucketed", "fixed", "dynamic"]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([0.3, 1.0]),
)
def test_balanced_batches_have_static_shapes_and_fit_them(
    require_creatable, columns, batching, replicas, balance
):
    tokens, frames, speakers = columns
    clips = Clips(tokens, frames, speakers, speakers // 2)
    config = XTTSConfig(
        batching=batching,
        shape_count=3,
        batch_size=4,
        speaker_balance=balance,
        language_balance=balance,
    )
    plan, schedule = schedule_of(clips, config, replicas=replicas)
    declared_shapes = None if batching == "dynamic" else plan.shapes
    for epoch in range(3):
        batches = epoch_batches(schedule, epoch)
        assert len(batches) == schedule.batches_per_epoch
        for batch in batches:
            require_creatable(batch, tokens, frames, replicas, declared_shapes)


@pytest.mark.parametrize("batching", ["bucketed", "fixed"])
@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
def test_the_planned_ratios_are_those_of_real_batches(batching, balance):
    clips = uneven_clips()
    config = XTTSConfig(batching=batching, speaker_balance=balance, language_balance=balance)
    plan, schedule = schedule_of(clips, config, replicas=2)
    batches = [
        (batch.clips, batch.shape, batch.shares)
        for epoch in range(3)
        for batch in epoch_batches(schedule, epoch)
    ]
    counted = measured_ratios(clips, batches, config)
    assert counted == pytest.approx((plan.valid_frame_ratio, plan.valid_work_ratio), rel=0.005)


def test_shapes_suit_what_is_heard():
    clips, config = uneven_clips(), XTTSConfig(shape_count=3, speaker_balance=1)
    suited, _ = schedule_of(clips, config)
    plain, _ = schedule_of(clips, XTTSConfig(shape_count=3))
    # The shapes of all clips alike, for the same balance.
    unsuited = assign_shapes(
        clips.token_counts,
        clips.frame_counts,
        [shape.padded for shape in plain.shapes],
        config,
        shares=1,
        labels=clips.labels,
    )
    assert suited.valid_frame_ratio > unsuited.valid_frame_ratio
    assert suited.valid_work_ratio > unsuited.valid_work_ratio
    assert describe_plan(suited, clips.frame_counts, config).splitlines()[-1].split()[2:] == [
        f"{suited.valid_frame_ratio:.1%}",
        f"{suited.valid_work_ratio:.1%}",
    ]


def test_an_epoch_is_about_as_long_as_without_balance():
    clips = uneven_clips()
    plain, balanced = (
        schedule_of(clips, XTTSConfig(batching="fixed", speaker_balance=balance))[1]
        for balance in (0.0, 1.0)
    )
    assert plain.batches_per_epoch == pytest.approx(balanced.batches_per_epoch, abs=1)


def test_a_balanced_batch_depends_on_seed_epoch_and_number_alone():
    clips, config = uneven_clips(), XTTSConfig(seed=5, speaker_balance=1)
    _, walked = schedule_of(clips, config)
    everything = [batch for epoch in range(2) for batch in epoch_batches(walked, epoch)]
    _, jumping = schedule_of(clips, config)
    for step in (len(everything) - 1, 0, len(everything) // 2):
        jumped = jumping.batch_at(step)
        np.testing.assert_array_equal(jumped.clips, everything[step].clips)
        np.testing.assert_array_equal(jumped.references, everything[step].references)
        assert jumped.shape == everything[step].shape


def test_replicas_share_the_batches_of_one_with_equally_many_frames():
    clips, config = uneven_clips(), XTTSConfig(speaker_balance=1)
    (_, alone), (_, shared) = (schedule_of(clips, config, replicas=count) for count in (1, 2))
    for single, batch in zip(epoch_batches(alone, 0), epoch_batches(shared, 0), strict=True):
        np.testing.assert_array_equal(single.clips, batch.clips)
        frames = clips.frame_counts[batch.clips].reshape(2, -1).sum(axis=1)
        assert frames.max() / frames.mean() <= 1.05


def test_another_balance_is_another_plan(tmp_path):
    clips, config = uneven_clips(), XTTSConfig(speaker_balance=0.5)
    plan, _ = schedule_of(clips, config)
    save_plan(plan, config, tmp_path / "shapes.json")
    padded = [shape.padded for shape in plan.shapes]
    assert load_shapes(tmp_path / "shapes.json", config).padded == padded
    for change in ({}, {"speaker_balance": 0.6}, {"speaker_balance": 0.5, "language_balance": 1}):
        assert load_shapes(tmp_path / "shapes.json", XTTSConfig(**change)) is None


@pytest.fixture(scope="module")
def lopsided_corpus(demo_corpus, tmp_path_factory):
    """The demo's, with two clips left of one speaker."""
    folder = tmp_path_factory.mktemp("lopsided") / "corpus"
    shutil.copytree(demo_corpus, folder, ignore=shutil.ignore_patterns("myxtts-cache"))
    metadata = folder / "metadata_train.csv"
    header, *rows = metadata.read_text(encoding="utf-8").splitlines()
    rare = [row for row in rows if row.split("|")[2] == rows[0].split("|")[2]]
    kept = [row for row in rows if row not in rare[2:]]
    metadata.write_text("\n".join([header, *kept]) + "\n", encoding="utf-8")
    return folder


def test_training_is_balanced_and_validation_as_it_is(miniature, lopsided_corpus, tmp_path):
    settings_of = {"train_data": str(lopsided_corpus)}
    plain = open_corpus(miniature(**settings_of))
    config = miniature(speaker_balance=1, **settings_of)
    balanced = open_corpus(config)
    speakers = balanced.train.cache.index["speaker"]
    assert shares(speakers).min() < 0.25
    found = shares(speakers[heard(balanced.train.schedule, 10)])
    np.testing.assert_allclose(found, [0.5, 0.5], rtol=0.05)

    assert balanced.validation.plan.weights is None
    schedules = [it.validation.schedule for it in (plain, balanced)]
    assert heard(schedules[0], 2).tolist() == heard(schedules[1], 2).tolist()

    save_plan(balanced.train.plan, config, tmp_path / "shapes.json")
    resumed = open_corpus(config, plan_file=tmp_path / "shapes.json")
    assert resumed.train.plan.shapes == balanced.train.plan.shapes
    assert heard(resumed.train.schedule, 2).tolist() == heard(balanced.train.schedule, 2).tolist()
