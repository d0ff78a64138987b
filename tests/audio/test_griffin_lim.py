import numpy as np
import pytest
import tensorflow as tf

from myxtts.audio.files import clean_recording
from myxtts.audio.griffin_lim import GriffinLim, spectrum, waveform_with_magnitudes
from myxtts.audio.mel import log_mel
from myxtts.config.config import AudioConfig
from myxtts.text import espeak

AUDIO = AudioConfig()


@pytest.fixture(scope="module")
def speech_mel() -> np.ndarray:
    samples = espeak.speak("The quiet river turned to the east.", "en-us+f2")
    waveform = clean_recording(samples.astype(np.float32) / 32_768, AUDIO)
    return log_mel(waveform, AUDIO, 80).numpy()


def test_speech_survives_inversion(speech_mel):
    again = log_mel(GriffinLim(AUDIO).samples(speech_mel), AUDIO, 80).numpy()
    frames = min(len(again), len(speech_mel))
    loud = speech_mel[:frames] > speech_mel.max() - 7  # levels below -60 dB are inaudible
    error = np.abs(again[:frames] - speech_mel[:frames])[loud]
    assert error.mean() < 0.35  # 3 dB
    assert abs(len(again) - len(speech_mel)) <= 1


def test_same_seed_same_samples(speech_mel):
    first, second = (GriffinLim(AUDIO).samples(speech_mel, seed=4) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, GriffinLim(AUDIO).samples(speech_mel, seed=5))


def test_finite_for_silence_and_for_one_frame():
    for frames in (1, 2, 50):
        waveform = GriffinLim(AUDIO).samples(np.full((frames, 80), -11.5, np.float32))
        assert np.isfinite(waveform).all()
        assert np.abs(waveform).max(initial=0) < 0.01


def test_high_frequencies_fluctuate_like_noise_and_low_ones_do_not():
    frames = 120
    magnitudes = tf.ones([1, frames, AUDIO.fft_samples // 2 + 1])
    noise = tf.random.stateless_normal([1, (frames - 1) * AUDIO.hop_samples], [1, 2])
    waveform = waveform_with_magnitudes(magnitudes, noise, AUDIO, 32)
    found = np.log(np.abs(spectrum(waveform, AUDIO)[0, 4:-4].numpy()) + 1e-3)
    bins_hz = np.fft.rfftfreq(AUDIO.fft_samples, 1 / AUDIO.sample_rate_hz)
    low = found[:, (bins_hz > 300) & (bins_hz < 2_000)].std()
    high = found[:, (bins_hz > 4_000) & (bins_hz < 10_000)].std()
    # The logarithm of the magnitude of complex white noise has a deviation of 0.64. There is more
    # of it here, because the refiner takes a part of it away.
    assert 0.67 < high < 0.8
    assert low < 0.6 * high
