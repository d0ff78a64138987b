"""Pulses at a pitch, and the pitch of recordings."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import AudioConfig
from myxtts.models.excitation import Pitch, cycles_at_frames, measured_pitch, pulses

AUDIO = AudioConfig()
RATE, HOP = AUDIO.sample_rate_hz, AUDIO.hop_samples
FRAMES = 41


def steady(hertz: float, voiced: bool = True) -> Pitch:
    return Pitch(tf.fill([1, FRAMES], hertz), tf.fill([1, FRAMES], voiced))


@pytest.mark.parametrize("hertz", [70.0, 118.0, 230.0, 500.0])
def test_pulses_have_all_harmonics_of_the_pitch_at_equal_strength(hertz):
    train = pulses(steady(hertz), tf.zeros([1]), AUDIO)[0].numpy()
    spectrum = np.abs(np.fft.rfft(train * np.hanning(train.size)))
    bins = np.arange(1, int(RATE / 2 / hertz)) * hertz * train.size / RATE
    harmonics = np.array([spectrum[round(place) - 2 : round(place) + 3].max() for place in bins])
    assert harmonics.min() > 0.8 * harmonics.max()
    between = np.round((bins[:-1] + bins[1:]) / 2).astype(int)
    assert spectrum[between].max() < 0.02 * harmonics.max()


def test_unvoiced_frames_have_no_pulses():
    assert not pulses(steady(150.0, voiced=False), tf.zeros([1]), AUDIO).numpy().any()


def test_the_phase_goes_on_from_any_frame():
    pitch = Pitch(tf.linspace([100.0], [220.0], FRAMES, axis=1), tf.fill([1, FRAMES], True))
    whole = pulses(pitch, tf.constant([0.3]), AUDIO).numpy()
    cycle = cycles_at_frames(pitch, tf.constant([0.3]), AUDIO)[:, 25]
    rest = pulses(Pitch(*(part[:, 25:] for part in pitch)), cycle, AUDIO).numpy()
    np.testing.assert_allclose(rest, whole[:, 25 * HOP :], atol=2e-3)


@pytest.mark.parametrize("hertz", [80.0, 131.0, 262.0, 450.0])
def test_the_pitch_of_a_voiced_sound_is_measured(hertz):
    train = pulses(steady(hertz), tf.zeros([1]), AUDIO)
    # A vocal tract: more energy below.
    tilted = tf.cumsum(train - tf.reduce_mean(train), axis=1)
    pitch = measured_pitch(tilted / tf.reduce_max(tf.abs(tilted)), AUDIO)
    inside = slice(3, -3)
    assert pitch.voiced.numpy()[0, inside].all()
    np.testing.assert_allclose(pitch.hertz.numpy()[0, inside], hertz, rtol=0.01)


def test_noise_and_silence_are_unvoiced():
    noise = tf.random.stateless_normal([1, (FRAMES - 1) * HOP], [1, 2]) * 0.1
    assert measured_pitch(noise, AUDIO).voiced.numpy().mean() < 0.1
    assert not measured_pitch(tf.zeros_like(noise), AUDIO).voiced.numpy().any()
