"""Waveforms from magnitudes: which are kept, and which fluctuate as noise does."""

import numpy as np
import tensorflow as tf

from myxtts.audio.griffin_lim import spectrum, waveform_with_magnitudes
from myxtts.config.config import AudioConfig

AUDIO = AudioConfig()
FRAMES = 120


def deviations(hertz: tuple[float, float]) -> float:
    """Of log-magnitudes in a band, of a waveform made with constant magnitudes."""
    magnitudes = tf.ones([1, FRAMES, AUDIO.fft_samples // 2 + 1])
    samples = (FRAMES - 1) * AUDIO.hop_samples
    noise = tf.random.stateless_normal([1, samples], [1, 2])
    waveform = waveform_with_magnitudes(magnitudes, noise, AUDIO, 32)
    found = np.abs(spectrum(waveform, AUDIO)[0, 4:-4].numpy())
    low, high = (round(it / AUDIO.sample_rate_hz * AUDIO.fft_samples) for it in hertz)
    return float(np.std(np.log(found[:, low:high] + 1e-3)))


def test_high_frequencies_fluctuate_like_noise_and_low_ones_keep_their_magnitudes():
    low, high = deviations((300.0, 2_000.0)), deviations((4_000.0, 10_000.0))
    # The logarithm of the magnitude of complex white noise has a deviation of 0.64. There is more
    # of it here, for the refiner takes a part of it away.
    assert 0.67 < high < 0.8
    assert low < 0.6 * high
