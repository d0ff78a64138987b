import numpy as np
import pytest
import tensorflow as tf

from myxtts.data.batch import Batch, BatchLoader
from myxtts.models.xtts import XTTS
from myxtts.training.acoustic import set_symbol_means


@pytest.fixture(scope="module")
def aligned(corpus, miniature):
    """Return a miniature before and after, with the batches it saw."""
    config = miniature()
    cache = corpus.train.cache
    model = XTTS(
        config,
        symbols=len(corpus.tokenizer.symbols),
        languages=1,
        mel_mean=cache.mel_mean,
        mel_deviation=cache.mel_deviation,
    )
    loader = BatchLoader(cache, corpus.tokenizer, config)
    schedule = corpus.train.schedule
    batches = [
        Batch(*map(tf.constant, loader.load(schedule.batch_at(index))))
        for index in range(schedule.batches_per_epoch)
    ]

    def prior() -> float:
        values = []
        for batch in batches:
            draws = model.draw(batch.token_ids.shape[0], tf.constant([0, 0]))
            values.append(float(model(batch, draws, model.count(batch))[0].prior))
        return float(np.mean(values))

    before = prior()
    set_symbol_means(model, loader, schedule, config, range(len(corpus.tokenizer.symbols)))
    return model, before, prior()


def test_the_prior_loss_falls_without_a_step(aligned):
    _, before, after = aligned
    assert after < 0.6 * before


def test_silence_is_quiet_and_vowels_are_loud(aligned, corpus):
    model, _, _ = aligned
    loudness = model.text_encoder.symbol_mean_mel.embeddings.numpy().mean(axis=1)
    symbols = corpus.tokenizer.symbols
    vowels = [loudness[symbols.index(vowel)] for vowel in ("ˈɑː", "ˈæ")]
    assert loudness[symbols.index("<edge>")] < min(vowels)


def test_durations_are_those_of_speech(aligned, corpus):
    model, _, _ = aligned
    log_durations = model.text_encoder.symbol_log_duration.embeddings.numpy()[2:, 0]
    seconds = np.exp(log_durations) * 2 * 256 / 22_050
    assert seconds.min() >= 0.02
    assert seconds.max() < 0.6


def test_symbols_that_never_occur_stay_neutral(aligned):
    padding = aligned[0].text_encoder.symbol_mean_mel.embeddings.numpy()[0]
    np.testing.assert_array_equal(padding, 0)
