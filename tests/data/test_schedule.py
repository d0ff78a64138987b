import os
import subprocess
import sys
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
    clips = Clips(part.cache.token_counts, part.cache.frame_counts, part.cache.index["speaker"])
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
def test_every_clip_comes_in_every_epoch_and_fits(lengths, batching, replicas):
    tokens, frames = lengths
    config = XTTSConfig(batching=batching, shape_count=3, batch_size=4)
    plan = plan_shapes(tokens, frames, config, replicas=replicas)
    schedule = Schedule(Clips(tokens, frames, np.zeros(tokens.size, np.int32)), plan, config)
    for epoch in range(2):
        epoch_batches = batches(
            schedule, epoch * schedule.batches_per_epoch, schedule.batches_per_epoch
        )
        seen = Counter(int(clip) for batch in epoch_batches for clip in batch.clips)
        assert set(seen) == set(range(tokens.size))
        for batch in epoch_batches:
            assert batch.clips.size == batch.shape.batch
            assert tokens[batch.clips].max() <= batch.shape.tokens
            assert frames[batch.clips].max() <= batch.shape.frames
            of_shares = tokens[batch.clips].reshape(replicas, -1).sum(axis=1)
            assert of_shares.max() <= batch.shape.slots
            if batching != "dynamic":
                assert batch.shape in plan.shapes
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
