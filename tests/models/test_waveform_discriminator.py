import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import AudioConfig
from myxtts.models.vocoder import (
    SpectrumDiscriminator,
    log_levels,
    window_lengths,
)

WINDOW = 64


@pytest.fixture
def discriminator(randomized) -> SpectrumDiscriminator:
    return randomized(SpectrumDiscriminator())


def noise(batch: int, seed: int, level: float = 0.1) -> tf.Tensor:
    return level * tf.random.stateless_normal([batch, 1_024], [seed, 0])


def test_windows_are_shorter_and_longer_than_that_of_the_mel():
    shorter, longer = window_lengths(AudioConfig())
    assert shorter < AudioConfig().fft_samples < longer


def test_white_noise_has_the_level_of_its_samples():
    levels = log_levels(noise(4, 0), WINDOW)
    assert levels.shape[2] == WINDOW // 2 + 1
    # The mean logarithm of the magnitude of noise lies below that of its power.
    assert np.mean(levels) == pytest.approx(
        np.log(0.1 * np.sqrt(0.75)) - np.euler_gamma / 2, abs=0.1
    )


def test_a_clip_is_judged_alone(discriminator):
    copied, recorded = (log_levels(noise(3, seed), WINDOW) for seed in range(2))
    together = discriminator.errors(copied, recorded)
    alone = discriminator.errors(copied[1:2], recorded[1:2])
    for one, all_ in zip(alone, together, strict=True):
        assert all_.shape == [3]
        np.testing.assert_allclose(one, all_[1:2], rtol=1e-4)


def test_a_copy_is_told_by_its_scores_and_by_features_unlike_those_of_its_recording(discriminator):
    recorded, other = (log_levels(noise(2, seed), WINDOW) for seed in range(2))

    def of_scores(levels: tf.Tensor) -> np.ndarray:
        return np.mean(np.square(discriminator(levels).scores - 1.0), axis=(1, 2))

    same, different = (discriminator.errors(it, recorded).of_copy for it in (recorded, other))
    np.testing.assert_allclose(same, of_scores(recorded), rtol=1e-5)
    assert np.all(different > of_scores(other) + 0.1)


def test_it_learns_to_tell_steady_magnitudes_from_those_of_noise():
    discriminator = SpectrumDiscriminator()
    discriminator.build()
    optimizer = tf.keras.optimizers.Adam(2e-3)
    errors = []
    for step in range(60):
        rough = log_levels(noise(8, step), WINDOW)
        steady = tf.fill(tf.shape(rough), tf.reduce_mean(rough))
        with tf.GradientTape() as tape:
            error = tf.reduce_mean(discriminator.errors(steady, rough).of_discriminator)
        weights = discriminator.trainable_variables
        optimizer.apply_gradients(
            zip(tape.gradient(error, [w.value for w in weights]), weights, strict=True)
        )
        errors.append(float(error))
    assert np.mean(errors[-5:]) < 0.1 * np.mean(errors[:5])
