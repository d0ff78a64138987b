import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import LossParts
from myxtts.data.batch import Batch, BatchLoader, batch_signature
from myxtts.data.corpus import open_corpus
from myxtts.models.xtts import XTTS
from myxtts.training.acoustic import AcousticObjective, compile_losses_and_path
from myxtts.training.optimizer import FlatAdamW
from myxtts.training.step import compile_training_step


def train(miniature, corpus, *, steps=6, accumulation=1, xla=False, seed=0, adversarial=0.0):
    """Weights after a few steps of the compiled step on real batches."""
    config = miniature(
        batch_size=4 // accumulation,
        gradient_accumulation_steps=accumulation,
        seed=seed,
        adversarial_weight=adversarial,
        phoneme_weight=adversarial,
    )
    tf.keras.utils.set_random_seed(1)
    tokenizer = corpus.tokenizer
    model = XTTS(
        config,
        symbols=len(tokenizer.symbols),
        languages=1,
        mel_mean=-5.0,
        mel_deviation=2.0,
        adversarial=adversarial > 0.0,
        classifies_phonemes=adversarial > 0.0,
    )
    optimizer = FlatAdamW(model.trainable_variables, config.training, 10)
    step = compile_training_step(
        AcousticObjective(model, config.training, total_steps=4),
        optimizer,
        batch_signature(config),
        config.training,
        xla=xla,
    )
    loader = BatchLoader(corpus.train.cache, tokenizer, config)
    schedule = open_corpus(config).train.schedule
    losses = [
        float(step(Batch(*loader.load(schedule.batch_at(index))), tf.constant(True)).loss)
        for index in range(steps)
    ]
    return step, np.array(losses), optimizer.weights().numpy()


@pytest.fixture(scope="module")
def plain(miniature, corpus):
    return train(miniature, corpus)


def test_one_trace_serves_every_shape(plain, corpus):
    step, _, _ = plain
    shapes = {corpus.train.schedule.batch_at(index).shape for index in range(6)}
    assert len(shapes) > 1
    assert step.experimental_get_tracing_count() == 1


def test_accumulation_equals_the_large_batch(plain, miniature, corpus):
    _, losses, weights = plain
    for accumulation in (2, 4):
        _, split_losses, split_weights = train(miniature, corpus, accumulation=accumulation)
        np.testing.assert_allclose(split_losses, losses, rtol=1e-5)
        np.testing.assert_allclose(split_weights, weights, atol=1e-5)


def test_accumulation_equals_the_large_batch_with_a_discriminator_too(miniature, corpus):
    _, losses, weights = train(miniature, corpus, adversarial=1.0)
    _, split_losses, split_weights = train(miniature, corpus, accumulation=2, adversarial=1.0)
    np.testing.assert_allclose(split_losses, losses, rtol=1e-4)
    np.testing.assert_allclose(split_weights, weights, atol=1e-4)


ADVERSARIAL = LossParts._fields.index("adversarial")


def test_the_discriminator_takes_part_after_its_share_of_the_run(miniature):
    config = miniature(adversarial_weight=2.0, adversarial_start=0.5).training
    model = XTTS(miniature(), symbols=4, languages=1, mel_mean=0.0, mel_deviation=1.0)
    objective = AcousticObjective(model, config, total_steps=10)
    weights = [
        objective.draw(3, tf.constant([0, step])).loss_weights[:, ADVERSARIAL].numpy().tolist()
        for step in (0, 4, 5, 10)
    ]
    assert weights == [[0.0] * 3, [0.0] * 3, [2.0] * 3, [2.0] * 3]


def test_noise_on_voices_is_drawn_as_configured(miniature):
    model = XTTS(miniature(), symbols=4, languages=1, mel_mean=0.0, mel_deviation=1.0)
    objective = AcousticObjective(model, miniature(voice_noise=2.0).training, total_steps=10)
    drawn = objective.draw(4_000, tf.constant([0, 1])).voice_noise.numpy()
    assert drawn.std() == pytest.approx(2.0, rel=0.02)


def test_the_same_seed_gives_the_same_weights(plain, miniature, corpus):
    np.testing.assert_array_equal(train(miniature, corpus)[2], plain[2])
    assert not np.array_equal(train(miniature, corpus, seed=1)[2], plain[2])


def test_xla_agrees(plain, miniature, corpus):
    _, losses, _ = train(miniature, corpus, xla=True)
    np.testing.assert_allclose(losses, plain[1], rtol=1e-3)


def test_xla_agrees_with_a_discriminator_too(miniature, corpus):
    (_, expected, _), (_, losses, _) = (
        train(miniature, corpus, steps=3, xla=xla, adversarial=1.0) for xla in (False, True)
    )
    np.testing.assert_allclose(losses, expected, rtol=1e-3)


def test_with_one_shape_any_other_is_refused(miniature, corpus):
    config = miniature(pad_to_fixed_length=True, max_mel_frames=400, max_text_length=70)
    part = open_corpus(config).train
    model = XTTS(
        config, symbols=len(corpus.tokenizer.symbols), languages=1, mel_mean=-5.0, mel_deviation=2.0
    )
    evaluate = compile_losses_and_path(model, batch_signature(config, part.plan), seed=0)
    loader = BatchLoader(part.cache, corpus.tokenizer, config)
    for step in range(part.schedule.batches_per_epoch):
        batch = loader.load(part.schedule.batch_at(step))
        assert batch.token_ids.shape == (4, 70)
        assert batch.mel.shape == (4, 400, 80)
    longer = np.pad(batch.mel, [(0, 0), (0, 2), (0, 0)])
    with pytest.raises((TypeError, ValueError), match=r"402"):
        evaluate(Batch(*batch._replace(mel=longer)))


def test_evaluation_is_repeatable_and_changes_nothing(miniature, corpus):
    config = miniature()
    model = XTTS(
        config, symbols=len(corpus.tokenizer.symbols), languages=1, mel_mean=-5.0, mel_deviation=2.0
    )
    evaluate = compile_losses_and_path(model, batch_signature(config), seed=0)
    loader = BatchLoader(corpus.train.cache, corpus.tokenizer, config)
    batch = Batch(*loader.load(corpus.train.schedule.batch_at(0)))
    (first, path), (second, _) = evaluate(batch), evaluate(batch)
    assert [float(part) for part in first] == [float(part) for part in second]
    durations = path.numpy().sum(axis=1)
    np.testing.assert_array_equal(durations.sum(axis=1), batch.mel_lengths // 2)
