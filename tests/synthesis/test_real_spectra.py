"""Spectra without complex numbers are those of TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.audio.mel import padding_samples
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError
from myxtts.synthesis.export import RealSpectra

AUDIO = XTTSConfig().audio
SIZE, HOP = AUDIO.fft_samples, AUDIO.hop_samples


@pytest.fixture(scope="module")
def samples() -> tf.Tensor:
    generator = np.random.default_rng(1)
    return tf.constant(generator.standard_normal(20 * HOP + SIZE), tf.float32)


def test_analysis_and_synthesis_are_those_of_tensorflow(samples):
    spectra = RealSpectra(AUDIO)
    real, imaginary = spectra.analyze(samples)
    expected = tf.signal.stft(samples, SIZE, HOP, SIZE)
    np.testing.assert_allclose(real, tf.math.real(expected), atol=2e-3)
    np.testing.assert_allclose(imaginary, tf.math.imag(expected), atol=2e-3)
    back = tf.signal.inverse_stft(
        expected, SIZE, HOP, SIZE, window_fn=tf.signal.inverse_stft_window_fn(HOP)
    )
    np.testing.assert_allclose(spectra.synthesize(real, imaginary), back, atol=1e-4)


def test_phases_are_found_for_magnitudes(samples):
    spectra = RealSpectra(AUDIO)
    before, after = padding_samples(AUDIO)
    padded = tf.pad(samples[before:-after], [[before, after]])
    magnitudes = tf.abs(tf.signal.stft(padded, SIZE, HOP, SIZE))
    noise = tf.constant(np.random.default_rng(2).standard_normal(padded.shape), tf.float32)

    def error(iterations: int) -> float:
        found = spectra.with_magnitudes(magnitudes, noise, iterations)
        assert found.shape == (20 * HOP,)
        real, imaginary = spectra.analyze(tf.pad(found, [[before, after]]))
        return float(tf.norm(tf.sqrt(real**2 + imaginary**2) - magnitudes) / tf.norm(magnitudes))

    assert error(30) < 0.6 * error(0)


def test_a_hop_that_does_not_divide_the_window_is_refused():
    with pytest.raises(CheckpointError, match=r"expected a multiple of audio\.hop_samples"):
        RealSpectra(XTTSConfig(fft_samples=1_000, hop_samples=256).audio)
