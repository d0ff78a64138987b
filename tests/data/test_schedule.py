from collections import Counter

import numpy as np

from myxtts.data.schedule import Schedule


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


def test_a_batch_depends_on_seed_epoch_and_number_alone(corpus):
    part = corpus.train
    walked = Schedule(part.cache, part.plan, 5)
    everything = batches(walked, 0, 3 * walked.batches_per_epoch)
    fresh = Schedule(part.cache, part.plan, 5)
    for step in (3 * walked.batches_per_epoch - 1, 0, walked.batches_per_epoch + 1):
        jumped = fresh.batch_at(step)
        np.testing.assert_array_equal(jumped.clips, everything[step].clips)
        np.testing.assert_array_equal(jumped.references, everything[step].references)
        np.testing.assert_array_equal(jumped.reference_starts, everything[step].reference_starts)


def test_epochs_and_seeds_differ(corpus):
    part = corpus.train
    schedule, other = (Schedule(part.cache, part.plan, seed) for seed in (0, 1))
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
