"""What is smooth stays; what is not is stronger; padding and amount zero change nothing."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.models.sharpening import sharpened


def of(mel, length=None, amount=1.0):
    lengths = tf.constant([len(mel) if length is None else length])
    return sharpened(tf.constant(mel[None], tf.float32), lengths, tf.constant(amount))[0].numpy()


def test_a_slope_keeps_its_shape_and_a_ripple_grows():
    slope = np.add.outer(np.arange(12.0), np.arange(10.0))
    np.testing.assert_allclose(of(slope)[1:-1, 1:-1], slope[1:-1, 1:-1], atol=1e-5)
    ripple = np.tile([0.0, 1.0], (12, 5))
    assert np.ptp(of(ripple)[:, 1:-1]) == pytest.approx(3.0)
    assert np.ptp(of(ripple.T)[1:-1]) == pytest.approx(2.0)


def test_what_follows_the_last_frame_does_not_matter():
    mel = np.random.default_rng(0).normal(size=(20, 8))
    padded = np.concatenate([mel, np.full((7, 8), 1e3)])
    np.testing.assert_allclose(of(padded, 20)[:20], of(mel), atol=1e-5)


def test_none_is_none():
    mel = np.random.default_rng(0).normal(size=(9, 8)).astype(np.float32)
    np.testing.assert_array_equal(of(mel, amount=0.0), mel)
