from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from myxtts.audio.mel import add_frames, cut_frames, hann_window, inverse_window

# Where the hop divides the frame, and where it does not.
SIZES = [(1_024, 256), (600, 240)]


@pytest.fixture
def samples():
    return np.random.default_rng(0).standard_normal((2, 5_000)).astype(np.float32)


@pytest.mark.parametrize(("size", "hop"), SIZES)
def test_frames_are_those_of_tensorflow(samples, size, hop):
    frames = cut_frames(tf.constant(samples), size, hop)
    np.testing.assert_array_equal(frames, tf.signal.frame(samples, size, hop))
    np.testing.assert_allclose(
        add_frames(frames, hop), tf.signal.overlap_and_add(frames, hop), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(("size", "hop"), SIZES)
def test_the_windows_of_both_ways_undo_each_other(samples, size, hop):
    frames = cut_frames(tf.constant(samples), size, hop) * hann_window(size)
    again = add_frames(frames * inverse_window(size, hop), hop).numpy()
    # The samples at both ends are in fewer frames.
    inside = slice(size, again.shape[1] - size)
    np.testing.assert_allclose(again[:, inside], samples[:, inside], atol=1e-5)


def test_one_graph_serves_every_length():
    @tf.function(input_signature=[tf.TensorSpec([None, None])])
    def back_and_forth(samples):
        return add_frames(cut_frames(samples, 8, 2), 2)

    for length in (8, 9, 20):
        assert back_and_forth(tf.ones([1, length])).shape == (1, length // 2 * 2)
