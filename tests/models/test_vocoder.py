"""The vocoder as a network: lengths, chunks and seeds, with random weights."""

import numpy as np
import pytest

from myxtts.audio.mel import mel_weights
from myxtts.config.config import XTTSConfig
from myxtts.models.vocoder import NeuralVocoder, VocoderNetwork

CONFIG = XTTSConfig(vocoder={"width": 16, "blocks": 2, "refining_blocks": 2})
HOP = CONFIG.audio.hop_samples


def with_random_weights(config: XTTSConfig) -> NeuralVocoder:
    network = VocoderNetwork(config)
    generator = np.random.default_rng(3)
    for variable in network.trainable_variables:
        variable.assign(variable + 0.02 * generator.standard_normal(variable.shape))
    return NeuralVocoder(network)


@pytest.fixture(scope="module")
def vocoder() -> NeuralVocoder:
    return with_random_weights(CONFIG)


def some_mel(frames: int) -> np.ndarray:
    """Bands that rise and fall, at the level of speech."""
    bands, times = np.arange(CONFIG.data.n_mels), np.arange(frames)[:, None]
    return (-6 + 2 * np.sin(bands / 4 + times / 17) - bands / 40).astype(np.float32)


@pytest.mark.parametrize("frames", [1, 2, 3, 40, 157])
def test_the_length_is_that_between_the_first_and_the_last_frame(vocoder, frames):
    samples = vocoder.samples(some_mel(frames))
    assert samples.shape == ((frames - 1) * HOP,)
    assert np.isfinite(samples).all()


@pytest.mark.parametrize("cuts", [[150], [7, 8, 190], [1, 2, 3, 239], list(range(10, 240, 10))])
def test_chunks_joined_equal_the_whole(vocoder, cuts):
    mel = some_mel(240)
    whole = vocoder.samples(mel, seed=2)
    chunks = list(vocoder.stream(np.split(mel, cuts), seed=2))
    np.testing.assert_allclose(np.concatenate(chunks), whole, atol=1e-4)


def test_chunks_join_with_longer_windows_too():
    vocoder, mel = with_random_weights(CONFIG.with_(fft_samples=2_048)), some_mel(300)
    whole = vocoder.samples(mel)
    assert whole.shape == (299 * HOP,)
    chunks = list(vocoder.stream(np.split(mel, [140, 260])))
    np.testing.assert_allclose(np.concatenate(chunks), whole, atol=1e-4)


def test_a_stream_speaks_before_its_end(vocoder):
    consumed = []

    def chunks():
        for part in np.split(some_mel(400), 4):
            consumed.append(len(part))
            yield part

    stream = vocoder.stream(chunks())
    assert next(stream).size > 0
    assert sum(consumed) <= 300


def test_the_seed_decides_the_noise(vocoder):
    mel = some_mel(60)
    first = vocoder.samples(mel, seed=1)
    np.testing.assert_array_equal(first, vocoder.samples(mel, seed=1))
    assert np.abs(first - vocoder.samples(mel, seed=2)).max() > 1e-4


def test_silence_stays_silent(vocoder):
    silence = np.full((80, CONFIG.data.n_mels), np.log(1e-5), np.float32)
    assert np.abs(vocoder.samples(silence)).max() < 2e-3


def test_the_level_follows_the_mel(vocoder):
    mel = some_mel(60)
    quiet, loud = (np.std(vocoder.samples(mel + gain)) for gain in (0.0, np.log(4.0)))
    assert 2.5 < loud / quiet < 6.5


def test_the_magnitudes_have_the_given_mel(vocoder):
    mel = some_mel(60)
    magnitudes = vocoder.network.predict_magnitudes(mel[None]).magnitudes[0].numpy()
    found = np.log(magnitudes @ mel_weights(CONFIG.audio, CONFIG.data.n_mels))
    assert np.abs(found - mel).mean() < 0.02
