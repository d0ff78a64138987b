import numpy as np
import pytest
import tensorflow as tf

from myxtts.data.batch import Batch, BatchLoader
from myxtts.models.critics import MelDiscriminator
from myxtts.models.xtts import XTTS

BANDS = 16


@pytest.fixture
def discriminator(randomized) -> MelDiscriminator:
    return randomized(MelDiscriminator())


def mels(batch: int, frames: int, seed: int = 0) -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).normal(size=(batch, frames, BANDS)), tf.float32)


def test_padding_changes_nothing(discriminator):
    predicted, recorded, expected = (mels(2, 20, seed) for seed in range(3))
    terms = discriminator.terms(predicted, recorded, expected, tf.ones([2, 20, 1]))
    padded = [
        tf.pad(mel, [[0, 0], [0, 13], [0, 0]], constant_values=5.0)
        for mel in (predicted, recorded, expected)
    ]
    mask = tf.pad(tf.ones([2, 20, 1]), [[0, 0], [0, 13], [0, 0]])
    of_padded = discriminator.terms(*padded, mask)
    np.testing.assert_allclose(of_padded.discriminator_error, terms.discriminator_error, rtol=1e-4)
    np.testing.assert_allclose(
        of_padded.decoder_gradient[:, :20], terms.decoder_gradient, atol=1e-5
    )
    np.testing.assert_array_equal(of_padded.decoder_gradient[:, 20:], 0.0)


def test_a_clip_is_judged_alone(discriminator):
    arguments = [mels(3, 24, seed) for seed in range(3)] + [tf.ones([3, 24, 1])]
    together = discriminator.terms(*arguments)
    alone = discriminator.terms(*(values[1:2] for values in arguments))
    np.testing.assert_allclose(
        alone.discriminator_error, together.discriminator_error[1:2], rtol=1e-4
    )
    np.testing.assert_allclose(alone.decoder_gradient, together.decoder_gradient[1:2], atol=1e-5)


def test_the_gradient_for_the_decoder_has_a_norm_of_one_and_leads_to_better_scores(discriminator):
    predicted, recorded, expected = (mels(4, 32, seed) for seed in range(3))
    mask = tf.ones([4, 32, 1])
    gradient = discriminator.terms(predicted, recorded, expected, mask).decoder_gradient
    np.testing.assert_allclose(tf.norm(tf.reshape(gradient, [4, -1]), axis=1), 1.0, rtol=1e-4)

    def distance(mel):
        ours = discriminator(mel, expected, mask)
        theirs = discriminator(recorded, expected, mask)
        features = zip(ours.features, theirs.features, strict=True)
        return float(
            tf.reduce_mean(tf.square(ours.scores - 1.0))
            + 2.0
            * sum(tf.reduce_mean(tf.abs(a - b)) / tf.reduce_mean(tf.abs(b)) for a, b in features)
        )

    assert distance(predicted - 0.01 * gradient) < distance(predicted)


def test_the_discriminator_learns_to_tell_smooth_mels_from_rough_ones():
    discriminator = MelDiscriminator()
    discriminator.build()
    optimizer = tf.keras.optimizers.Adam(1e-3)
    mask, expected = tf.ones([8, 32, 1]), tf.zeros([8, 32, BANDS])
    errors = []
    for step in range(60):
        rough = mels(8, 32, step)
        smooth = 0.3 * mels(8, 32, 1_000 + step)
        with tf.GradientTape() as tape:
            error = tf.reduce_mean(
                discriminator.terms(smooth, rough, expected, mask).discriminator_error
            )
        weights = discriminator.trainable_variables
        optimizer.apply_gradients(
            zip(tape.gradient(error, [w.value for w in weights]), weights, strict=True)
        )
        errors.append(float(error) / 32)
    assert np.mean(errors[-5:]) < 0.1 * np.mean(errors[:5])


@pytest.fixture(scope="module")
def adversarial(miniature) -> XTTS:
    tf.keras.utils.set_random_seed(0)
    return XTTS(
        miniature(), symbols=120, languages=2, mel_mean=-5.0, mel_deviation=2.0, adversarial=True
    )


@pytest.fixture(scope="module")
def batch(corpus, miniature) -> Batch:
    loader = BatchLoader(corpus.train.cache, corpus.tokenizer, miniature())
    return Batch(*map(tf.constant, loader.load(corpus.train.schedule.batch_at(0))))


def gradients(model: XTTS, batch: Batch, weight: float, part: str):
    size = batch.token_ids.shape[0]
    draws = model.draw(size, tf.constant([0, 0]))
    draws = draws._replace(loss_weights=weight * draws.loss_weights)
    with tf.GradientTape() as tape:
        parts, _ = model(batch, draws, model.count(batch))
        loss = getattr(parts, part)
    weights = {variable.path: variable.value for variable in model.trainable_variables}
    return float(loss), tape.gradient(loss, weights)


def test_the_adversarial_loss_trains_the_discriminator_and_the_decoder(adversarial, batch):
    loss, found = gradients(adversarial, batch, 1.0, "adversarial")
    assert loss > 0.0
    for path in ("xtts/discriminator/kernel_0", "xtts/decoder/mel/bias"):
        assert np.abs(found[path]).max() > 0.0


def test_the_gradient_of_the_decoder_grows_with_the_weight(adversarial, batch):
    of_one, of_two = (
        gradients(adversarial, batch, weight, "adversarial")[1]["xtts/decoder/mel/bias"]
        for weight in (1.0, 2.0)
    )
    np.testing.assert_allclose(of_two, 2.0 * of_one, rtol=1e-4)


def test_without_a_weight_there_is_no_adversarial_loss(adversarial, batch):
    loss, found = gradients(adversarial, batch, 0.0, "adversarial")
    assert loss == 0.0
    assert all(value is None or not np.any(tf.convert_to_tensor(value)) for value in found.values())


def test_the_other_losses_do_not_know_the_discriminator(adversarial, batch):
    _, found = gradients(adversarial, batch, 1.0, "flow")
    assert all(value is None for path, value in found.items() if "discriminator" in path)
