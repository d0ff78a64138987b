import itertools
import os
import subprocess
import sys
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.config.config import XTTSConfig
from myxtts.data.diagnosis import typical_lengths
from myxtts.data.schedule import Clips, Schedule
from myxtts.data.shapes import plan_shapes


def schedule_of(part, config):
    clips = Clips(
        part.cache.token_counts,
        part.cache.frame_counts,
        part.cache.index["speaker"],
        part.cache.index["language"],
    )
    return Schedule(clips, part.plan, config)


def batches(schedule, first=0, count=None):
    count = schedule.batches_per_epoch if count is None else count
    return [schedule.batch_at(step) for step in range(first, first + count)]


def test_an_epoch_has_every_clip_and_fills_the_last_batch(corpus):
    part = corpus.train
    epoch = batches(part.schedule)
    seen = Counter(int(clip) for batch in epoch for clip in batch.clips)
    assert set(seen) == set(range(len(part.cache)))
    assert all(batch.clips.size == batch.shape.batch for batch in epoch)
    for batch in epoch:
        assert (part.cache.frame_counts[batch.clips] <= batch.shape.frames).all()
        assert (part.cache.token_counts[batch.clips] <= batch.shape.tokens).all()


def test_with_hardly_a_batch_per_shape_every_clip_occurs_equally_often():
    clips, config = typical_lengths(200), XTTSConfig()
    plan = plan_shapes(clips.token_counts, clips.frame_counts, config)
    assert not plan.whole_epochs
    schedule, epochs = Schedule(clips, plan, config), 100
    drawn = np.concatenate(
        [batch.clips for batch in batches(schedule, 0, epochs * schedule.batches_per_epoch)]
    )
    counts = np.bincount(drawn, minlength=200)
    np.testing.assert_allclose(counts, drawn.size / 200, rtol=0.1)
    assert drawn.size == pytest.approx(200 * epochs, rel=0.05)


def test_a_batch_depends_on_seed_epoch_and_number_alone(corpus, miniature):
    part = corpus.train
    walked = schedule_of(part, miniature(seed=5))
    everything = batches(walked, 0, 3 * walked.batches_per_epoch)
    fresh = schedule_of(part, miniature(seed=5))
    for step in (3 * walked.batches_per_epoch - 1, 0, walked.batches_per_epoch + 1):
        jumped = fresh.batch_at(step)
        np.testing.assert_array_equal(jumped.clips, everything[step].clips)
        np.testing.assert_array_equal(jumped.references, everything[step].references)
        np.testing.assert_array_equal(jumped.reference_starts, everything[step].reference_starts)


def test_epochs_and_seeds_differ(corpus, miniature):
    schedule, other = (schedule_of(corpus.train, miniature(seed=seed)) for seed in (0, 1))
    orders = [
        np.concatenate([batch.clips for batch in some]).tolist()
        for some in (
            batches(schedule),
            batches(schedule, schedule.batches_per_epoch),
            batches(other),
        )
    ]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_references_are_other_clips_of_the_same_speaker(corpus):
    part = corpus.train
    speakers = part.cache.index["speaker"]
    for batch in batches(part.schedule, 0, 5 * part.schedule.batches_per_epoch):
        np.testing.assert_array_equal(speakers[batch.references], speakers[batch.clips])
        assert (batch.references != batch.clips).all()
        assert ((batch.reference_starts >= 0) & (batch.reference_starts < 1)).all()


LENGTHS = st.lists(
    st.tuples(st.integers(3, 60), st.integers(16, 300)), min_size=1, max_size=40
).map(lambda pairs: [np.array(lengths, np.int32) for lengths in zip(*pairs, strict=True)])


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.sampled_from(["bucketed", "fixed", "dynamic"]), st.sampled_from([1, 2, 4]))
def test_every_clip_comes_in_every_epoch_and_fits(require_creatable, lengths, batching, replicas):
    tokens, frames = lengths
    config = XTTSConfig(batching=batching, shape_count=3, batch_size=4)
    plan = plan_shapes(tokens, frames, config, replicas=replicas)
    schedule = Schedule(Clips(tokens, frames, *np.zeros((2, tokens.size), np.int32)), plan, config)
    declared_shapes = None if batching == "dynamic" else plan.shapes
    for epoch in range(2):
        epoch_batches = batches(
            schedule, epoch * schedule.batches_per_epoch, schedule.batches_per_epoch
        )
        seen = Counter(int(clip) for batch in epoch_batches for clip in batch.clips)
        assert set(seen) == set(range(tokens.size))
        for batch in epoch_batches:
            require_creatable(batch, tokens, frames, replicas, declared_shapes)
        # Clips that fill up the last batches are the only ones to come twice.
        filled = sum(batch.clips.size for batch in epoch_batches) - tokens.size
        assert filled < sum(shape.batch for shape in plan.shapes)


def test_every_process_has_the_same_schedule():
    program = """
import numpy as np
from myxtts.config.config import XTTSConfig
from myxtts.data.diagnosis import typical_lengths
from myxtts.data.schedule import Schedule
from myxtts.data.shapes import plan_shapes
clips, config = typical_lengths(300), XTTSConfig(seed=3)
plan = plan_shapes(clips.token_counts, clips.frame_counts, config)
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


@pytest.mark.parametrize("batching", ["bucketed", "fixed"])
def test_two_replicas_get_equally_many_frames(batching):
    clips, config = typical_lengths(2_000), XTTSConfig(batching=batching)
    plan = plan_shapes(clips.token_counts, clips.frame_counts, config, replicas=2)
    schedule = Schedule(clips, plan, config)
    for batch in batches(schedule):
        frames = clips.frame_counts[batch.clips].reshape(2, -1).sum(axis=1)
        assert frames.max() / frames.mean() <= 1.02


@pytest.fixture(scope="module", params=[0.0, 0.5], ids=["plain", "balanced"])
def make_large_schedule(request):
    clips, config = typical_lengths(20_000), XTTSConfig(speaker_balance=request.param)
    # A corpus is written speaker by speaker: neighbours in it have the same one.
    clips = clips._replace(speakers=(20 * (np.arange(20_000) / 20_000) ** 2).astype(np.int32))
    plan = plan_shapes(clips.token_counts, clips.frame_counts, config, labels=clips.labels)
    return lambda: Schedule(clips, plan, config)


def test_a_batch_has_clips_from_all_over_the_corpus(make_large_schedule):
    schedule = make_large_schedule()
    some = batches(schedule, 0, 200)
    # As far apart in a batch as in all of them, and in the next epoch beside other clips.
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


def test_workers_share_a_batch_without_overlap(make_large_schedule):
    for batch in batches(make_large_schedule(), 0, 50):
        parts = [batch.part(worker, 4) for worker in range(4)]
        for name in ("clips", "references", "reference_starts"):
            together = np.concatenate([getattr(part, name) for part in parts])
            np.testing.assert_array_equal(together, getattr(batch, name))
        assert {part.shape for part in parts} == {batch.shape.part(4)}


def test_a_late_step_takes_no_more_work_than_an_early_one(make_large_schedule):
    def work(step):
        """Calls of functions, and bytes in use at most, from a new schedule to this batch."""
        schedule, calls = make_large_schedule(), Counter()
        tracemalloc.start()
        sys.setprofile(lambda frame, event, argument: calls.update([event]))
        try:
            schedule.batch_at(step)
        finally:
            sys.setprofile(None)
            most_bytes = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return calls["call"] + calls["c_call"], most_bytes

    early, late = work(10), work(1_000_000)
    assert late == pytest.approx(early, rel=0.2)
