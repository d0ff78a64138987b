import itertools
import os
import shutil
import subprocess
import sys
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.config.config import XTTSConfig
from myxtts.data.corpus import open_corpus
from myxtts.data.schedule import Schedule, balance_halves, draw_rows, split_by_weight
from myxtts.data.shapes import (
    Clips,
    assign_shapes,
    by_text_length,
    plan_shapes,
    save_plan,
    slots_of_share,
    strata_by_row,
)
from myxtts.data.statistics import measured_ratios, typical_lengths

# Four speakers of two languages, one of whom has nearly everything.
CLIPS_OF_SPEAKERS = np.array([2_400, 500, 80, 20])
LANGUAGE_OF_SPEAKER = np.array([0, 0, 1, 1], np.int32)
WEIGHTS = st.sampled_from([1e-6, 0.01, 0.5, 1.0, 2.0, 3.7, 100.0])
TOKENS = st.lists(st.integers(3, 200), min_size=1, max_size=60)


def uneven_clips() -> Clips:
    """Return clips whose speakers also differ in length, so that their shapes differ."""
    lengths = typical_lengths(CLIPS_OF_SPEAKERS.sum())
    ranks = np.argsort(lengths.frame_counts + np.random.default_rng(1).normal(0, 300, 3_000))
    speakers = np.empty(3_000, np.int32)
    speakers[ranks] = np.repeat(np.arange(4), CLIPS_OF_SPEAKERS)
    return lengths._replace(speakers=speakers, languages=LANGUAGE_OF_SPEAKER[speakers])


def schedule_of(clips, config, *, replicas=1):
    plan = plan_shapes(clips, config, replicas=replicas)
    return plan, Schedule(clips, plan, config)


def batches(schedule, first=0, count=None):
    count = schedule.batches_per_epoch if count is None else count
    return [schedule.batch_at(step) for step in range(first, first + count)]


def epoch_batches(schedule, epoch):
    return batches(schedule, epoch * schedule.batches_per_epoch)


def drawn(schedule, epochs):
    return np.concatenate(
        [batch.clips for epoch in range(epochs) for batch in epoch_batches(schedule, epoch)]
    )


def shares(groups):
    return np.bincount(groups) / groups.size


def test_an_epoch_has_every_clip_and_fills_the_last_batch(corpus):
    part = corpus.train
    epoch = batches(part.schedule)
    seen = Counter(int(clip) for batch in epoch for clip in batch.clips)
    assert set(seen) == set(range(len(part.cache)))
    assert all(batch.clips.size == batch.shape.batch for batch in epoch)


def test_every_clip_occurs_equally_often_with_hardly_a_batch_per_shape():
    plan, schedule = schedule_of(typical_lengths(200), XTTSConfig())
    assert not plan.whole_epochs
    clips = drawn(schedule, 100)
    np.testing.assert_allclose(np.bincount(clips, minlength=200), clips.size / 200, rtol=0.1)
    assert clips.size == pytest.approx(200 * 100, rel=0.05)


@pytest.mark.parametrize("balance", [0, 1])
def test_a_batch_depends_on_seed_and_step_only(balance):
    clips, config = uneven_clips(), XTTSConfig(seed=5, speaker_balance=balance)
    _, walked = schedule_of(clips, config)
    everything = batches(walked, 0, 2 * walked.batches_per_epoch)
    _, jumping = schedule_of(clips, config)
    for step in (len(everything) - 1, 0, len(everything) // 2):
        jumped = jumping.batch_at(step)
        np.testing.assert_array_equal(jumped.clips, everything[step].clips)
        np.testing.assert_array_equal(jumped.references, everything[step].references)
        np.testing.assert_array_equal(jumped.reference_starts, everything[step].reference_starts)
        assert jumped.shape == everything[step].shape
    _, other = schedule_of(clips, XTTSConfig(seed=6, speaker_balance=balance))
    firsts = [some.batch_at(step).clips.tolist() for some in (walked, other) for step in (0, 900)]
    assert len(set(map(tuple, firsts))) == 4


def test_references_are_other_clips_of_the_same_speaker(corpus):
    part = corpus.train
    speakers = part.cache.index["speaker"]
    for batch in batches(part.schedule, 0, 5 * part.schedule.batches_per_epoch):
        np.testing.assert_array_equal(speakers[batch.references], speakers[batch.clips])
        assert (batch.references != batch.clips).all()
        assert ((batch.reference_starts >= 0) & (batch.reference_starts < 1)).all()


VOICES = st.lists(
    st.tuples(st.integers(3, 60), st.integers(16, 300), st.sampled_from([0, 0, 0, 0, 1, 2])),
    min_size=1,
    max_size=40,
).map(lambda rows: [np.array(column, np.int32) for column in zip(*rows, strict=True)])


@settings(max_examples=80, deadline=None)
@given(
    VOICES,
    st.sampled_from(["bucketed", "fixed", "dynamic"]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([0, 0.3, 1.0]),
)
def test_batches_have_declared_shapes_and_fit_them(columns, batching, replicas, balance):
    tokens, frames, speakers = columns
    config = XTTSConfig(
        batching=batching,
        shape_count=3,
        batch_size=4,
        speaker_balance=balance,
        language_balance=balance,
    )
    clips = Clips(tokens, frames, speakers, speakers // 2)
    plan, schedule = schedule_of(clips, config, replicas=replicas)
    for epoch in range(3):
        epoch_of = epoch_batches(schedule, epoch)
        for batch in epoch_of:
            assert batch.clips.size == batch.shape.batch
            assert tokens[batch.clips].max() <= batch.shape.tokens
            assert frames[batch.clips].max() <= batch.shape.frames
            of_shares = tokens[batch.clips].reshape(replicas, -1).sum(axis=1)
            assert of_shares.max() <= batch.shape.slots
            assert batching == "dynamic" or batch.shape in plan.shapes
        if plan.weights is None:
            seen = np.concatenate([batch.clips for batch in epoch_of])
            assert set(seen.tolist()) == set(range(tokens.size))
            # Only clips that fill up the last batches are repeated.
            assert seen.size - tokens.size < sum(shape.batch for shape in plan.shapes)


def test_every_process_has_the_same_schedule():
    program = """
from myxtts.config.config import XTTSConfig
from myxtts.data.schedule import Schedule
from myxtts.data.shapes import plan_shapes
from myxtts.data.statistics import typical_lengths
clips, config = typical_lengths(300), XTTSConfig(seed=3)
plan = plan_shapes(clips, config)
schedule = Schedule(clips, plan, config)
print(plan.shapes, [schedule.batch_at(step).clips.tolist() for step in (0, 7, 1_000)])
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": str(number)},
            capture_output=True,
            check=True,
        ).stdout
        for number in (1, 2)
    }
    assert len(outputs) == 1


@pytest.mark.parametrize(("batching", "balance"), [("bucketed", 0), ("fixed", 0), ("bucketed", 1)])
def test_replicas_share_the_batches_of_one_with_equally_many_frames(batching, balance):
    clips, config = uneven_clips(), XTTSConfig(batching=batching, speaker_balance=balance)
    (_, alone), (_, shared) = (schedule_of(clips, config, replicas=count) for count in (1, 2))
    for single, batch in zip(batches(alone), batches(shared), strict=True):
        np.testing.assert_array_equal(single.clips, batch.clips)
        frames = clips.frame_counts[batch.clips].reshape(2, -1).sum(axis=1)
        assert frames.max() / frames.mean() <= (1.05 if balance else 1.03)


@settings(max_examples=80, deadline=None)
@given(TOKENS, st.sampled_from([2, 4, 6, 8]), st.integers(0, 9))
def test_balancing_halves_moves_clips_and_overflows_nothing(tokens, batch, seed):
    generator = np.random.default_rng(seed)
    token_counts = np.array(tokens, np.int32)
    frame_counts = (token_counts * generator.uniform(4, 8, token_counts.size)).astype(np.int32)
    rows = strata_by_row(np.arange(token_counts.size, dtype=np.int32), token_counts, batch)
    capacity = {
        parts: slots_of_share(rows, token_counts, parts)
        for parts in range(2, batch + 1)
        if batch % parts == 0
    }
    clips = np.array([generator.choice(row) for row in rows])
    order = balance_halves(clips, frame_counts, token_counts, capacity)
    assert sorted(order) == sorted(clips)
    for parts, slots in capacity.items():
        assert token_counts[order].reshape(parts, -1).sum(axis=1).max() <= slots

    def imbalance(rows):
        first, second = frame_counts[rows].reshape(2, -1).sum(axis=1, dtype=np.int64)
        return abs(first - second)

    assert imbalance(order) <= imbalance(clips)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(3, 200), WEIGHTS), min_size=1, max_size=60),
    st.integers(1, 9),
    st.integers(1, 20),
    st.floats(0, 1, exclude_max=True),
)
def test_rows_are_drawn_from_their_strata_by_weight(clips_and_weights, batch, count, offset):
    token_counts, weights = (np.array(column) for column in zip(*clips_and_weights, strict=True))
    ordered = by_text_length(np.arange(weights.size), token_counts)
    strata = strata_by_row(np.arange(weights.size), token_counts, batch, weights)
    rows = draw_rows(ordered, weights[ordered], (count, batch), offset, np.random.default_rng(0))
    assert rows.shape == (count, batch)
    for row, stratum in zip(rows.T, strata, strict=True):
        assert set(row) <= set(stratum)
    copies = np.bincount(rows.ravel(), minlength=weights.size)
    assert (np.abs(copies - weights / weights.sum() * count * batch) < 1 + 1e-9).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(WEIGHTS, min_size=1, max_size=30), st.integers(1, 200))
def test_split_parts_are_proportional_on_average(weights, total):
    weights = np.array(weights)
    offsets = (np.arange(500) + 0.5) / 500
    parts = np.array([split_by_weight(weights, total, offset) for offset in offsets])
    assert (parts.sum(axis=1) == total).all()
    np.testing.assert_allclose(parts.mean(axis=0), total * weights / weights.sum(), atol=0.01)


@pytest.mark.parametrize("batching", ["bucketed", "fixed", "dynamic"])
@pytest.mark.parametrize("balance", [0.5, 1.0])
def test_speakers_are_sampled_by_weight(batching, balance):
    clips = uneven_clips()
    config = XTTSConfig(batching=batching, speaker_balance=balance)
    plan, schedule = schedule_of(clips, config)
    wanted = CLIPS_OF_SPEAKERS ** (1 - balance)
    found = shares(clips.speakers[drawn(schedule, 4)])
    np.testing.assert_allclose(found, wanted / wanted.sum(), rtol=0.03)
    copies = np.bincount(drawn(schedule, 1), minlength=3_000)
    drawn_of_shape = np.bincount(plan.shape_of_clip, copies, minlength=len(plan.shapes))
    weight_of_shape = np.bincount(plan.shape_of_clip, plan.weights)
    expected = plan.weights * (drawn_of_shape / weight_of_shape)[plan.shape_of_clip]
    assert np.abs(copies - expected).max() < 1


def test_languages_are_sampled_by_weight():
    clips = uneven_clips()
    _, schedule = schedule_of(clips, XTTSConfig(language_balance=1))
    np.testing.assert_allclose(shares(clips.languages[drawn(schedule, 4)]), [0.5, 0.5], rtol=0.02)


def test_the_clips_of_a_large_speaker_alternate():
    clips = uneven_clips()
    plan, schedule = schedule_of(clips, XTTSConfig(batching="fixed", speaker_balance=1))
    large = np.flatnonzero(clips.speakers == 0)
    assert 0.2 < plan.weights[large[0]] < 0.4
    first, second = (
        {int(clip) for batch in epoch_batches(schedule, epoch) for clip in batch.clips}
        for epoch in range(2)
    )
    # A third of these clips is drawn in an epoch; by chance a third of those would be drawn again.
    again = first & second & set(large.tolist())
    assert len(again) < 0.05 * large.size
    assert np.isin(large, drawn(schedule, 6)).all()


@pytest.mark.parametrize("batching", ["bucketed", "fixed"])
@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
def test_planned_ratios_match_real_batches(batching, balance):
    clips = uneven_clips()
    config = XTTSConfig(batching=batching, speaker_balance=balance, language_balance=balance)
    plan, schedule = schedule_of(clips, config, replicas=2)
    some = batches(schedule, 0, 3 * schedule.batches_per_epoch)
    counted = measured_ratios(clips, some, config)
    assert counted == pytest.approx((plan.valid_frame_ratio, plan.valid_work_ratio), rel=0.005)


def test_shapes_suit_the_balance():
    clips, config = uneven_clips(), XTTSConfig(shape_count=3, speaker_balance=1)
    suited, _ = schedule_of(clips, config)
    plain, _ = schedule_of(clips, XTTSConfig(shape_count=3))
    padded = [shape.padded for shape in plain.shapes]
    unsuited = assign_shapes(clips, padded, config, shares=1)
    assert suited.valid_frame_ratio > unsuited.valid_frame_ratio
    assert suited.valid_work_ratio > unsuited.valid_work_ratio


@pytest.fixture(scope="module", params=[0.0, 0.5], ids=["plain", "balanced"])
def make_large_schedule(request):
    clips, config = typical_lengths(20_000), XTTSConfig(speaker_balance=request.param)
    # A corpus is written speaker by speaker: neighbors in it have the same one.
    clips = clips._replace(speakers=(20 * (np.arange(20_000) / 20_000) ** 2).astype(np.int32))
    plan = plan_shapes(clips, config)
    return lambda: Schedule(clips, plan, config)


def test_a_batch_has_clips_from_all_over_the_corpus(make_large_schedule):
    schedule = make_large_schedule()
    some = batches(schedule, 0, 200)
    # Clips of a batch are as far apart as any, and have other neighbors in the next epoch.
    spread = np.mean([np.std(batch.clips) for batch in some])
    assert spread == pytest.approx(np.std(np.concatenate([it.clips for it in some])), rel=0.1)
    later = batches(schedule, schedule.batches_per_epoch, 200)
    together = {frozenset(pair) for batch in some for pair in itertools.pairwise(batch.clips)}
    again = {frozenset(pair) for batch in later for pair in itertools.pairwise(batch.clips)}
    assert len(together & again) < 0.01 * len(together)


def test_shapes_are_interleaved(make_large_schedule):
    shapes = [batch.shape for batch in batches(make_large_schedule())]
    by_chance = 1 - sum((count / len(shapes)) ** 2 for count in Counter(shapes).values())
    changes = sum(a != b for a, b in itertools.pairwise(shapes)) / (len(shapes) - 1)
    assert len(set(shapes)) > 4
    assert changes == pytest.approx(by_chance, abs=0.05)


def test_workers_split_a_batch_without_overlap(make_large_schedule):
    for batch in batches(make_large_schedule(), 0, 50):
        parts = [batch.part(worker, 4) for worker in range(4)]
        for name in ("clips", "references", "reference_starts"):
            together = np.concatenate([getattr(part, name) for part in parts])
            np.testing.assert_array_equal(together, getattr(batch, name))
        assert {part.shape for part in parts} == {batch.shape.part(4)}


def test_a_late_step_takes_no_more_work_than_an_early_one(make_large_schedule):
    def work(step):
        """Return function calls and peak bytes, from a new schedule to this batch."""
        schedule, calls = make_large_schedule(), Counter()
        tracemalloc.start()
        sys.setprofile(lambda frame, event, argument: calls.update([event]))
        try:
            schedule.batch_at(step)
        finally:
            sys.setprofile(None)
            peak_bytes = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return calls["call"] + calls["c_call"], peak_bytes

    early, late = work(10), work(1_000_000)
    assert late == pytest.approx(early, rel=0.5)


def test_training_is_balanced_and_validation_is_not(miniature, demo_corpus, tmp_path):
    folder = tmp_path / "corpus"
    shutil.copytree(demo_corpus, folder, ignore=shutil.ignore_patterns("myxtts-cache"))
    metadata = folder / "metadata_train.csv"
    header, *rows = metadata.read_text(encoding="utf-8").splitlines()
    # Leave two clips of one speaker.
    rare = [row for row in rows if row.split("|")[2] == rows[0].split("|")[2]]
    kept = [row for row in rows if row not in rare[2:]]
    metadata.write_text("\n".join([header, *kept]) + "\n", encoding="utf-8")
    plain = open_corpus(miniature(train_data=str(folder)))
    config = miniature(train_data=str(folder), speaker_balance=1)
    balanced = open_corpus(config)
    speakers = balanced.train.cache.index["speaker"]
    assert shares(speakers).min() < 0.25
    found = shares(speakers[drawn(balanced.train.schedule, 10)])
    np.testing.assert_allclose(found, [0.5, 0.5], rtol=0.05)
    schedules = [it.validation.schedule for it in (plain, balanced)]
    assert drawn(schedules[0], 2).tolist() == drawn(schedules[1], 2).tolist()
    save_plan(balanced.train.plan, config, tmp_path / "shapes.json")
    resumed = open_corpus(config, plan_file=tmp_path / "shapes.json")
    assert drawn(resumed.train.schedule, 2).tolist() == drawn(balanced.train.schedule, 2).tolist()
