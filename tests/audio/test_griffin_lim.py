import numpy as np
import pytest

from myxtts.audio.files import clean_recording
from myxtts.audio.griffin_lim import GriffinLim
from myxtts.audio.mel import log_mel
from myxtts.config.config import AudioConfig
from myxtts.text import espeak

AUDIO = AudioConfig()


@pytest.fixture(scope="module")
def speech_mel() -> np.ndarray:
    samples = espeak.speak("The quiet river turned to the east.", "en-us+f2")
    waveform = clean_recording(samples.astype(np.float32) / 32_768, AUDIO)
    return log_mel(waveform, AUDIO, 80).numpy()


def test_speech_survives_the_way_there_and_back(speech_mel):
    again = log_mel(GriffinLim(AUDIO).samples(speech_mel), AUDIO, 80).numpy()
    frames = min(len(again), len(speech_mel))
    loud = speech_mel[:frames] > speech_mel.max() - 7  # what is 60 dB down is not heard
    error = np.abs(again[:frames] - speech_mel[:frames])[loud]
    assert error.mean() < 0.35  # 3 dB
    assert abs(len(again) - len(speech_mel)) <= 1


def test_any_window_length():
    audio = AudioConfig(sample_rate_hz=24_000, fft_samples=1_200, hop_samples=300)
    tone = np.sin(np.arange(24_000) * 0.1).astype(np.float32)
    mel = log_mel(tone, audio, 80).numpy()
    assert abs(GriffinLim(audio).samples(mel).size - tone.size) <= 300


def test_same_seed_same_samples(speech_mel):
    first, second = (GriffinLim(AUDIO).samples(speech_mel, seed=4) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, GriffinLim(AUDIO).samples(speech_mel, seed=5))


def test_finite_for_silence_and_for_one_frame():
    for frames in (1, 2, 50):
        waveform = GriffinLim(AUDIO).samples(np.full((frames, 80), -11.5, np.float32))
        assert np.isfinite(waveform).all()
        assert np.abs(waveform).max(initial=0) < 0.01
