"""The counting against real mels, and the numbers that MEL_RULES stands for."""

import subprocess
import sys

import numpy as np
import pytest

from myxtts.audio.files import clean_recording
from myxtts.audio.griffin_lim import GriffinLim
from myxtts.audio.mel import clip_log_mel, log_mel
from myxtts.audio.mel_geometry import (
    MEL_RULES,
    frames_in_padded,
    mel_frame_count,
    padded_samples,
    padding_samples,
    seconds_of_frames,
    span_samples,
    window_start,
)
from myxtts.config.config import AudioConfig

AUDIOS = [
    AudioConfig(),
    AudioConfig(sample_rate_hz=16_000, fft_samples=512, hop_samples=200),
    AudioConfig(fft_samples=1_023, hop_samples=256),
]


@pytest.mark.parametrize("audio", AUDIOS)
@pytest.mark.parametrize("samples", [1, 255, 256, 257, 4_096, 5_000])
def test_as_many_frames_as_the_mel_has(audio, samples):
    mel = log_mel(np.zeros(samples, np.float32), audio, 20)
    assert mel.shape[0] == mel_frame_count(samples, audio)
    assert frames_in_padded(padded_samples(samples, audio), audio) == mel.shape[0]
    assert samples - audio.hop_samples < span_samples(mel.shape[0], audio) <= samples


@pytest.mark.parametrize("audio", AUDIOS)
def test_a_frame_hears_its_window_and_nothing_else(audio):
    """A click is in the frames whose windows hold it."""
    click = 3_000
    waveform = np.zeros(8_000, np.float32)
    waveform[click] = 1.0
    heard = np.flatnonzero(log_mel(waveform, audio, 20).numpy().max(axis=1) > np.log(2e-5))
    frames = np.arange(mel_frame_count(waveform.size, audio))
    starts = window_start(frames, audio)
    # A Hann window is zero where it begins.
    within = np.flatnonzero((starts < click) & (click < starts + audio.fft_samples))
    np.testing.assert_array_equal(heard, within)
    assert window_start(0, audio) == -padding_samples(audio)[0]


@pytest.mark.parametrize("audio", AUDIOS)
def test_griffin_lim_gives_the_samples_that_the_frames_span(audio):
    frames = 30
    vocoder = GriffinLim(audio, phase_iterations=1, spectrum_iterations=1)
    waveform = vocoder.samples(np.full((frames, 20), -4.0, np.float32))
    assert waveform.size == span_samples(frames, audio)
    assert mel_frame_count(waveform.size, audio) == frames


def test_arrays_are_counted_like_numbers():
    audio = AudioConfig()
    frames = np.array([1, 2, 100], np.int32)
    np.testing.assert_array_equal(span_samples(frames, audio), [0, 256, 25_344])
    assert seconds_of_frames(frames, audio) == pytest.approx([256 / 22_050, 512 / 22_050, 1.160998])


def test_needs_no_tensorflow(user_environment):
    program = "import sys, myxtts.audio.mel_geometry; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, env=user_environment)


# Every fourth frame and every eighth band of the mel of `recording()`.
RULES_OF_THE_NUMBERS = 1
FRAMES_OF_THE_NUMBERS = 33
NUMBERS = np.array(
    [
        [-11.513, -11.513, -11.513, -11.513, -11.513, -11.513, -11.513, -11.513, -11.513, -11.513],
        [-1.792, -2.723, -3.240, -4.108, -4.435, -4.220, -4.609, -4.785, -5.645, -6.373],
        [-6.017, -3.761, -2.613, -2.357, -3.690, -3.210, -3.736, -4.011, -9.978, -11.513],
        [-6.226, -2.564, -3.300, -3.706, -3.608, -3.384, -3.564, -3.937, -4.291, -11.513],
        [-6.382, -1.269, -1.843, -2.831, -2.685, -3.443, -3.788, -3.883, -4.208, -11.513],
        [-7.604, -1.226, -4.401, -4.100, -3.392, -3.040, -3.969, -3.862, -4.188, -11.513],
        [-7.425, -2.428, -4.756, -2.071, -3.567, -3.064, -4.086, -3.781, -4.110, -6.469],
        [-4.104, -2.452, -2.785, -4.138, -3.620, -4.519, -4.127, -4.206, -4.631, -4.952],
        [-11.513, -11.513, -11.513, -11.513, -11.513, -11.513, -11.513, -11.513, -11.513, -11.513],
    ]
)


def recording() -> np.ndarray:
    """A voice-like sound, rising, between two silences."""
    time = np.arange(6_000) / 22_050
    phase = 2 * np.pi * (120 * time + 150 * time**2)
    voice = sum(np.sin(harmonic * phase) / harmonic for harmonic in range(1, 31))
    silence = np.zeros(4_000)
    return np.concatenate([silence, 0.2 * voice, silence]).astype(np.float32)


def test_a_changed_mel_has_a_new_number():
    audio = AudioConfig()
    mel = clip_log_mel(audio, 80)(clean_recording(recording(), audio))
    advice = (
        "the same recording gives another mel: raise MEL_RULES in myxtts/audio/mel_geometry.py, "
        "so that prepared features are made again, and store the new numbers here"
    )
    assert mel.shape == (FRAMES_OF_THE_NUMBERS, 80), advice
    np.testing.assert_allclose(mel[::4, ::8], NUMBERS, atol=2e-3, err_msg=advice)
    assert MEL_RULES == RULES_OF_THE_NUMBERS, "MEL_RULES was raised: store its numbers here"
