import numpy as np
import pytest
import tensorflow as tf

from myxtts.data.batch import Batch, BatchLoader
from myxtts.models.critics import PhonemeClassifier, cross_entropy
from myxtts.models.xtts import XTTS

CHANNELS, SYMBOLS = 12, 5


@pytest.fixture
def classifier(randomized) -> PhonemeClassifier:
    return randomized(PhonemeClassifier(SYMBOLS, CHANNELS))


def mels(batch: int, positions: int, seed: int = 0) -> tf.Tensor:
    random = np.random.default_rng(seed)
    return tf.constant(random.normal(size=(batch, positions, CHANNELS)), tf.float32)


def spoken(batch: int, positions: int, seed: int = 9) -> tf.Tensor:
    random = np.random.default_rng(seed)
    return tf.constant(random.integers(SYMBOLS, size=(batch, positions)), tf.int32)


def test_padding_changes_nothing(classifier):
    predicted, recorded, symbols, mask = mels(2, 11, 0), mels(2, 11, 1), spoken(2, 11), ones(2, 11)
    found = classifier.decoder_gradient(predicted, recorded, symbols, mask)
    end = [[0, 0], [0, 6], [0, 0]]
    of_padded = classifier.decoder_gradient(
        *(tf.pad(mel, end, constant_values=5.0) for mel in (predicted, recorded)),
        tf.pad(symbols, end[:2]),
        tf.pad(mask, end),
    )
    np.testing.assert_allclose(of_padded[:, :11], found, atol=1e-5)
    np.testing.assert_array_equal(of_padded[:, 11:], 0.0)


def test_a_clip_is_judged_alone(classifier):
    arguments = mels(3, 12, 0), mels(3, 12, 1), spoken(3, 12), ones(3, 12)
    together = classifier.decoder_gradient(*arguments)
    alone = classifier.decoder_gradient(*(values[1:2] for values in arguments))
    np.testing.assert_allclose(alone, together[1:2], atol=1e-5)


def ones(batch: int, positions: int) -> tf.Tensor:
    return tf.ones([batch, positions, 1])


def taught() -> PhonemeClassifier:
    """Each symbol is a channel that is louder than the others."""
    classifier = PhonemeClassifier(SYMBOLS, CHANNELS)
    classifier.build()
    optimizer = tf.keras.optimizers.Adam(3e-3)
    for step in range(40):
        symbols = spoken(8, 16, step)
        with tf.GradientTape() as tape:
            logits = classifier(recording(symbols, step), ones(8, 16)).logits
            error = tf.reduce_mean(cross_entropy(logits, symbols, ones(8, 16)))
        weights = classifier.trainable_variables
        optimizer.apply_gradients(
            zip(tape.gradient(error, [w.value for w in weights]), weights, strict=True)
        )
    return classifier


def recording(symbols: tf.Tensor, seed: int) -> tf.Tensor:
    return 0.1 * mels(*symbols.shape, seed) + 2.0 * tf.one_hot(symbols, CHANNELS)


def test_the_decoder_is_pulled_towards_what_is_recognized_and_no_further():
    classifier = taught()
    symbols, mask = spoken(4, 16, 100), ones(4, 16)
    recorded, unclear = recording(symbols, 200), mels(4, 16, 300)
    gradient = classifier.decoder_gradient(unclear, recorded, symbols, mask)
    np.testing.assert_allclose(tf.norm(tf.reshape(gradient, [4, -1]), axis=1), 1.0, rtol=1e-3)

    def unsureness(mel):
        return float(tf.reduce_mean(cross_entropy(classifier(mel, mask).logits, symbols, mask)))

    assert unsureness(unclear - 1.0 * gradient) < unsureness(unclear)
    as_clear = classifier.decoder_gradient(recorded, recorded, symbols, mask)
    np.testing.assert_array_equal(as_clear, 0.0)


@pytest.fixture(scope="module")
def batch(corpus, miniature) -> Batch:
    loader = BatchLoader(corpus.train.cache, corpus.tokenizer, miniature())
    return Batch(*map(tf.constant, loader.load(corpus.train.schedule.batch_at(0))))


@pytest.fixture(scope="module")
def model(miniature, batch) -> XTTS:
    """Its classifier knows the batch; its decoder knows nothing."""
    tf.keras.utils.set_random_seed(0)
    model = XTTS(
        miniature(),
        symbols=120,
        languages=2,
        mel_mean=-5.0,
        mel_deviation=2.0,
        classifies_phonemes=True,
    )
    optimizer = tf.keras.optimizers.Adam(1e-3)
    weights = model.phoneme_classifier.trainable_variables
    for _ in range(10):
        found = gradients(model, batch)[1]
        optimizer.apply_gradients([(found[weight.path], weight) for weight in weights])
    return model


def gradients(model: XTTS, batch: Batch, *, weight: float = 1.0, has_text: float = 1.0):
    size = batch.token_ids.shape[0]
    draws = model.draw(size, tf.constant([0, 0]))
    draws = draws._replace(
        loss_weights=weight * draws.loss_weights,
        condition_mask=tf.repeat([[has_text, 1.0]], size, axis=0),
    )
    with tf.GradientTape() as tape:
        parts, _ = model(batch, draws, model.count(batch))
    weights = {variable.path: variable.value for variable in model.trainable_variables}
    return float(parts.phoneme), tape.gradient(parts.phoneme, weights)


OF_DECODER, OF_CLASSIFIER = "xtts/decoder/mel/bias", "xtts/phoneme_classifier/symbols/bias"


def test_the_loss_trains_the_classifier_and_the_decoder(model, batch):
    loss, found = gradients(model, batch)
    assert loss > 0.0
    for path in (OF_DECODER, OF_CLASSIFIER):
        assert np.abs(found[path]).max() > 0.0
    twice = gradients(model, batch, weight=2.0)[1]
    np.testing.assert_allclose(twice[OF_DECODER], 2.0 * found[OF_DECODER], rtol=1e-4)
    np.testing.assert_allclose(twice[OF_CLASSIFIER], found[OF_CLASSIFIER], rtol=1e-4)


def test_without_text_the_decoder_is_not_pulled(model, batch):
    _, found = gradients(model, batch, has_text=0.0)
    assert not np.any(found[OF_DECODER])
    assert np.any(found[OF_CLASSIFIER])
