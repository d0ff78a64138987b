import dataclasses
import json
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

from myxtts.data.feeding.pipeline import Feed
from myxtts.data.opening import open_corpus
from myxtts.errors import DataError, DeviceError


@pytest.fixture
def open_feed(corpus, miniature):
    feeds = []

    def make(*, part=corpus.train, first_step=0, last_step=12, settings=(), **options):
        feed = Feed(part, corpus.tokenizer, miniature(**dict(settings)), last_step, **options)
        feeds.append(feed)
        feed.start(first_step)
        return feed

    yield make
    for feed in feeds:
        feed.close()


def taken(feed, count):
    return [[np.asarray(values) for values in next(feed)] for _ in range(count)]


def assert_same(some, others, atol=0.0):
    for batch, other in zip(some, others, strict=True):
        for values, expected in zip(batch, other, strict=True):
            np.testing.assert_allclose(values, expected, atol=atol, rtol=0)


def test_a_feed_brings_the_batches_of_the_schedule(open_feed, corpus):
    feed = open_feed()
    assert (feed.mode, feed.data_device) == ("single-gpu-buffered", "CPU:0")
    for step in range(12):
        planned = corpus.train.schedule.batch_at(step)
        batch = next(feed)
        np.testing.assert_array_equal(
            batch.mel_lengths, corpus.train.cache.frame_counts[planned.clips]
        )
    with pytest.raises(StopIteration):
        next(feed)


def test_both_modes_bring_the_same_batches(open_feed):
    plain = taken(open_feed(), 4)
    produced = open_feed(data_device="CPU:0")
    assert produced.mode == "multi-gpu"
    assert_same(taken(produced, 4), plain, atol=1 / 127)


@pytest.mark.parametrize("options", [{}, {"data_device": "CPU:0"}], ids=["single", "multi"])
def test_augmented_batches_are_the_same_again(open_feed, options):
    changed = {"augment_speed": 0.1, "augment_noise_dbfs": -40.0, "augment_pitch_semitones": 2.0}
    once = taken(open_feed(settings=changed, **options), 6)
    resumed = taken(open_feed(settings=changed, first_step=3, **options), 3)
    assert_same(resumed, once[3:])
    assert any(
        (batch[3] != plain[3]).any()
        for batch, plain in zip(once, taken(open_feed(), 6), strict=True)
    )


def test_resuming_late_gives_the_batches_of_an_uninterrupted_run(open_feed):
    """Nothing has to be gone through to reach a step."""
    far = 100_000
    uninterrupted = taken(open_feed(first_step=far - 3, last_step=far + 10), 13)
    resumed = taken(open_feed(first_step=far, last_step=far + 10), 10)
    assert_same(resumed, uninterrupted[3:])


def test_each_machine_gets_its_part(open_feed, miniature):
    part = open_corpus(miniature(), replicas=2).train
    whole = taken(open_feed(part=part), 3)
    parts = [taken(open_feed(part=part, worker=worker, workers=2), 3) for worker in range(2)]
    for step in range(3):
        # Slots count within a share; the rest lies side by side.
        for field in (0, 1, 3, 4, 5, 6, 7):
            together = np.concatenate([part[step][field] for part in parts])
            np.testing.assert_array_equal(together, whole[step][field])


def test_nothing_is_left_running(open_feed):
    before = set(threading.enumerate())
    feed = open_feed(data_device="CPU:0", model_device="CPU:0")
    next(feed)
    feed.close()
    assert set(threading.enumerate()) <= before


def test_a_damaged_clip_reaches_the_user_by_its_name(open_feed, corpus):
    cache = corpus.train.cache
    mels = np.array(cache.arrays["mels"])
    mels[cache.index[2]["mels_start"]] = np.nan
    broken = dataclasses.replace(cache, arrays=cache.arrays | {"mels": mels})
    feed = open_feed(part=dataclasses.replace(corpus.train, cache=broken))
    with pytest.raises(DataError, match=cache.audio_path(2).name):
        taken(feed, 12)


def test_a_data_device_that_fails_is_named(open_feed, monkeypatch):
    def run_out_of_memory(waveforms):
        raise tf.errors.ResourceExhaustedError(None, None, "no memory left for mels")

    monkeypatch.setattr(
        "myxtts.data.feeding.source.compile_features", lambda config, mean: run_out_of_memory
    )
    feed = open_feed(data_device="CPU:0")
    with pytest.raises(DeviceError, match="making batches on CPU:0 failed: no memory left"):
        feed.wait_until_ready(0)


def test_the_model_waits_for_data_and_for_its_delay(open_feed, monkeypatch):
    slept = []
    monkeypatch.setattr("myxtts.data.feeding.pipeline.time.sleep", slept.append)
    feed = open_feed(data_device="CPU:0")
    feed.wait_until_ready(1_000)
    assert len(feed._buffer) > 0
    assert 900 < slept[0] <= 1_000


def test_a_buffer_takes_no_more_memory_than_its_share(open_feed):
    feed = open_feed(settings={"buffer_size": 10_000, "memory_share": 0.01})
    assert feed.buffer_size < 10_000


# Two GPUs are pretended, of which only TensorFlow's own settings are used; nothing runs on them.
BUFFER_ON_GPU = """
import json, sys
import tensorflow as tf
from tensorflow.python.eager import context
names = ["CPU:0", "GPU:0", "GPU:1"]
context.pywrap_tfe.TF_ListPhysicalDevices = lambda: [
    f"/physical_device:{name}".encode() for name in names
]
context.pywrap_tfe.TF_GetDeviceDetails = lambda index: {}

from myxtts.config.config import XTTSConfig
from myxtts.data.feeding.pipeline import Feed
from myxtts.data.opening import open_corpus
from myxtts.devices.memory import setup_gpu_memory_isolation

config = XTTSConfig(**json.loads(sys.argv[1]))
corpus = open_corpus(config)

def batches():
    return Feed(corpus.train, corpus.tokenizer, config, 12, data_device="GPU:0").buffer_size

found = [batches()]
for limit_mb in (1_000, 2_000):
    assert setup_gpu_memory_isolation(0, 1, limit_mb, 3_000)
    found.append(batches())
print(json.dumps(found))
"""


def test_a_buffer_on_a_gpu_takes_its_share_of_the_limit_in_force(
    corpus, miniature, user_environment
):
    config = miniature(buffer_size=100_000, memory_share=0.5)
    done = subprocess.run(
        [sys.executable, "-c", BUFFER_ON_GPU, json.dumps(config.as_dict())],
        env=user_environment | {"CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    unknown, small, large = json.loads(done.stdout.splitlines()[-1])
    assert unknown == 100_000  # cards that do not tell their size
    batch_bytes = max(
        4 * shape.batch * ((shape.frames + 64) * config.data.n_mels + shape.tokens)
        for shape in corpus.train.plan.shapes
    )
    assert [small, large] == [(500 << 20) // batch_bytes, (1_000 << 20) // batch_bytes]
