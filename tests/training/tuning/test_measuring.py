import numpy as np
import pytest
import tensorflow as tf

from myxtts.data.batch import BatchLoader
from myxtts.data.corpus import replanned
from myxtts.data.pipeline import AcousticSource
from myxtts.devices.machine import Memory
from myxtts.training.tune import MemoryGuard, StepBench, Tuner, time_loading, workload


@pytest.fixture(scope="module")
def loader(corpus, miniature):
    return BatchLoader(corpus.train.cache, corpus.tokenizer, miniature())


def test_a_workload_stands_for_the_epoch(corpus, loader):
    schedule = corpus.train.schedule
    shapes = [schedule.batch_at(step).shape for step in range(schedule.batches_per_epoch)]
    work = workload(corpus.train, loader)
    largest = max(shapes, key=lambda shape: shape.batch * shape.frames * shape.tokens)
    assert work.largest.mel.shape[:2] == (largest.batch, largest.frames)
    assert work.largest_frames == largest.batch * largest.frames
    assert work.share_of_largest == shapes.count(largest) / len(shapes)
    counts = {shape.padded: shapes.count(shape) for shape in shapes}
    size, tokens = work.typical.token_ids.shape
    assert counts[size, tokens, work.typical.mel.shape[1]] == max(counts.values())
    assert work.largest_mb == pytest.approx(
        sum(tensor.numpy().nbytes for tensor in work.largest) / 2**20
    )


def test_the_same_clips_in_other_batches(corpus, miniature):
    part = replanned(corpus.train, miniature(batch_size=8, shape_count=1))
    assert [shape.batch for shape in part.plan.shapes] == [8]
    assert part.cache is corpus.train.cache


def test_rates_count_real_frames_of_both_batches(corpus, miniature, loader):
    class Clock(StepBench):
        """One second for every clip."""

        def __init__(self):
            pass

        def seconds(self, batch):
            return float(batch.mel.shape[0])

    work = workload(corpus.train, loader)._replace(share_of_largest=0.25)
    real, clips = (
        0.75 * amount(work.typical) + 0.25 * amount(work.largest)
        for amount in (lambda it: np.sum(it.mel_lengths), lambda it: it.mel.shape[0])
    )
    assert Clock().frame_rate(work) == pytest.approx(real / clips)


class RecordedSource(AcousticSource):
    """Says of which steps features were computed."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.loaded, self.computed_clips = [], []

    def load(self, step):
        self.loaded.append(step)
        return super().load(step)

    def computed(self, waveforms):
        batch = super().computed(waveforms)
        self.computed_clips.append(batch.mel.shape[0])
        return batch


@pytest.mark.parametrize(
    ("settings", "options", "computes"),
    [
        ({}, {}, False),
        ({"speed": 0.1}, {}, True),
        ({}, {"data_device": "CPU:0"}, True),
    ],
    ids=["cached", "augmented", "device of its own"],
)
def test_loading_is_timed_as_a_run_does_it(corpus, miniature, settings, options, computes):
    source = RecordedSource(corpus.train, corpus.tokenizer, miniature(**settings), **options)
    times = time_loading(source, threads=2, first_step=3, count=6)
    (rate,) = times.rates
    # No load takes longer than all of them together.
    assert 0 < times.slowest_seconds <= 6 / rate
    assert sorted(source.loaded) == list(range(3, 9))
    assert len(source.computed_clips) == (6 if computes else 0)


def test_with_augmentation_the_tuner_times_computed_features(corpus, miniature, monkeypatch):
    sources = []

    class Source(RecordedSource):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            sources.append(self)

    monkeypatch.setattr("myxtts.training.tune.AcousticSource", Source)
    config = miniature(pitch_semitones=1.0)
    tuning = Tuner(config, corpus, tf.distribute.get_strategy(), seconds=0.1).run()
    assert tuning.measurements["batches_loaded_per_second"]
    (source,) = sources
    assert len(source.computed_clips) == len(source.loaded) > 0


def test_on_a_cpu_memory_that_would_be_short_is_foreseen():
    peaks = iter([1_000, 1_200])
    guard = MemoryGuard(
        tf.distribute.get_strategy(), lambda: next(peaks), lambda: Memory(8_000, free_mb=1_000)
    )
    guard.require_room_for(10**9)  # nothing is known yet
    with guard.watching(100):
        pass
    guard.require_room_for(250)
    with pytest.raises(tf.errors.ResourceExhaustedError):
        guard.require_room_for(251)
