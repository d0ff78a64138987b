import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import AudioConfig
from myxtts.models.vocoder import Spectrum, SpectrumRefiner

AUDIO = AudioConfig()
BINS = AUDIO.fft_samples // 2 + 1
WIDTH, FRAMES = 8, 12


@pytest.fixture
def refiner() -> SpectrumRefiner:
    made = SpectrumRefiner(AUDIO, WIDTH, 1)
    made.build()
    return made


def some_spectrum(seed: int = 0) -> Spectrum:
    generator = np.random.default_rng(seed)
    return Spectrum(*(generator.normal(size=(1, FRAMES, BINS)).astype(np.float32) for _ in "ab"))


def states(seed: int = 5) -> tf.Tensor:
    return tf.random.stateless_normal([1, FRAMES, WIDTH], [seed, 0])


def as_complex(spectrum: Spectrum) -> np.ndarray:
    return np.asarray(spectrum.real) + 1j * np.asarray(spectrum.imaginary)


def test_it_starts_as_the_identity(refiner):
    given = some_spectrum()
    np.testing.assert_allclose(as_complex(refiner(given, states())), as_complex(given), atol=1e-6)


def test_lower_bins_are_scaled_and_turned_and_upper_ones_only_scaled(refiner):
    given = some_spectrum()
    refiner.project.bias.assign(np.full(refiner.project.bias.shape, 0.5))
    ratio = as_complex(refiner(given, states())) / as_complex(given)
    np.testing.assert_allclose(np.abs(ratio), np.exp(0.5), rtol=1e-4)
    np.testing.assert_allclose(np.angle(ratio[..., : BINS // 2 - 1]), 0.5, atol=1e-4)
    np.testing.assert_allclose(np.angle(ratio[..., BINS // 2 + 1 :]), 0.0, atol=1e-4)


def test_a_steady_tone_looks_the_same_in_every_frame_and_at_any_phase(refiner):
    """Whatever its frequency: what the network is to notice is where phases do not fit."""
    hertz, times = 440.0, np.arange(AUDIO.fft_samples + FRAMES * AUDIO.hop_samples)
    features = []
    for phase in (0.0, 1.0):
        tone = np.sin(2 * np.pi * hertz * times / AUDIO.sample_rate_hz + phase)
        windows = np.lib.stride_tricks.sliding_window_view(tone, AUDIO.fft_samples)
        frames = windows[:: AUDIO.hop_samples][:FRAMES] * np.hanning(AUDIO.fft_samples + 1)[:-1]
        found = np.fft.rfft(frames).astype(np.complex64)[None]
        parts = refiner._features(Spectrum(found.real, found.imag))
        features.append(np.concatenate(parts, -1)[0, 1:])
    peak = round(hertz * AUDIO.fft_samples / AUDIO.sample_rate_hz)
    near = np.arange(peak - 1, peak + 1)
    columns = np.concatenate([BINS + part * round(BINS / 2) + near for part in range(4)])
    # The image of the tone at negative frequencies leaves a little.
    np.testing.assert_allclose(features[0][:, columns], features[1][:, columns], atol=2e-3)
    assert np.ptp(features[0][:, columns], axis=0).max() < 2e-3
    of_neighbors = features[0][:, BINS + 2 * round(BINS / 2) + peak - 1]
    assert of_neighbors.min() > 0.9
