"""The log-mel against its definition in NumPy, the positions of its frames, and frames and back."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from myxtts.audio.files import clean_recording
from myxtts.audio.griffin_lim import GriffinLim
from myxtts.audio.mel import (
    LOG_FLOOR,
    MEL_RULES,
    add_frames,
    clip_log_mel,
    cut_frames,
    frames_in_padded,
    hann_window,
    inverse_window,
    log_mel,
    mel_frame_count,
    padded_samples,
    padding_samples,
    span_samples,
    window_start,
)
from myxtts.config.config import AudioConfig

AUDIOS = [
    AudioConfig(),
    AudioConfig(sample_rate_hz=16_000, fft_samples=512, hop_samples=200),
    AudioConfig(fft_samples=1_023, hop_samples=256),
]


def reference_log_mel(waveform: np.ndarray, audio: AudioConfig, n_mels: int) -> np.ndarray:
    """Frame by frame in NumPy, from the definition: window, Fourier transform, triangles, log."""
    half = audio.fft_samples // 2
    padded = np.pad(waveform.astype(np.float64), (half, half))
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(audio.fft_samples) / audio.fft_samples)

    def to_mel(hz):
        return np.where(
            hz < 1_000, hz * 3 / 200, 15 + 27 * np.log(np.maximum(hz, 1) / 1_000) / np.log(6.4)
        )

    def to_hz(mel):
        return np.where(mel < 15, mel * 200 / 3, 1_000 * np.exp((mel - 15) * np.log(6.4) / 27))

    low, high = to_mel(np.array([0.0, audio.highest_hz]))
    edges = to_hz(np.linspace(low, high, n_mels + 2))
    bins = np.arange(half + 1) * audio.sample_rate_hz / audio.fft_samples
    bands = np.zeros((n_mels, half + 1))
    for band in range(n_mels):
        left, center, right = edges[band : band + 3]
        triangle = np.minimum((bins - left) / (center - left), (right - bins) / (right - center))
        bands[band] = np.maximum(triangle, 0) * 2 / (right - left)
    frames = []
    for start in range(0, padded.size - audio.fft_samples + 1, audio.hop_samples):
        spectrum = np.abs(np.fft.rfft(padded[start : start + audio.fft_samples] * window))
        frames.append(np.log(np.maximum(bands @ spectrum, LOG_FLOOR)))
    return np.array(frames)


@pytest.mark.parametrize(
    ("audio", "n_mels"),
    [
        (AudioConfig(), 80),
        (AudioConfig(sample_rate_hz=16_000, fft_samples=512, hop_samples=160), 40),
        (AudioConfig(highest_hz=11_025.0), 100),
    ],
)
def test_equals_the_numpy_reference(audio, n_mels):
    generator = np.random.default_rng(0)
    time = np.arange(9_001) / audio.sample_rate_hz
    waveform = 0.3 * np.sin(2 * np.pi * 300 * time) + 0.05 * generator.normal(size=time.size)
    mel = log_mel(waveform.astype(np.float32), audio, n_mels).numpy()
    expected = reference_log_mel(waveform.astype(np.float32), audio, n_mels)
    assert mel.shape == expected.shape == (mel_frame_count(time.size, audio), n_mels)
    np.testing.assert_allclose(mel, expected, atol=1e-4)


def test_silence_is_the_floor():
    mel = log_mel(np.zeros(4_000, np.float32), AudioConfig(), 80).numpy()
    np.testing.assert_allclose(mel, np.log(LOG_FLOOR), rtol=1e-6)


@pytest.mark.parametrize("audio", AUDIOS)
@pytest.mark.parametrize("samples", [1, 255, 256, 257, 4_096, 5_000])
def test_frame_counts_match_the_mel(audio, samples):
    mel = log_mel(np.zeros(samples, np.float32), audio, 20)
    assert mel.shape[0] == mel_frame_count(samples, audio)
    assert frames_in_padded(padded_samples(samples, audio), audio) == mel.shape[0]
    assert samples - audio.hop_samples < span_samples(mel.shape[0], audio) <= samples


@pytest.mark.parametrize("audio", AUDIOS)
def test_a_frame_depends_on_its_window_only(audio):
    click = 3_000
    waveform = np.zeros(8_000, np.float32)
    waveform[click] = 1.0
    touched = np.flatnonzero(log_mel(waveform, audio, 20).numpy().max(axis=1) > np.log(2e-5))
    frames = np.arange(mel_frame_count(waveform.size, audio))
    starts = window_start(frames, audio)
    # A Hann window is zero where it begins.
    within = np.flatnonzero((starts < click) & (click < starts + audio.fft_samples))
    np.testing.assert_array_equal(touched, within)
    assert window_start(0, audio) == -padding_samples(audio)[0]


@pytest.mark.parametrize("audio", AUDIOS)
def test_griffin_lim_returns_the_samples_that_frames_span(audio):
    frames = 30
    vocoder = GriffinLim(audio, phase_iterations=1, spectrum_iterations=1)
    waveform = vocoder.samples(np.full((frames, 20), -4.0, np.float32))
    assert waveform.size == span_samples(frames, audio)
    assert mel_frame_count(waveform.size, audio) == frames


# Where the hop divides the frame, and where it does not.
SIZES = [(1_024, 256), (600, 240)]


@pytest.fixture
def samples():
    return np.random.default_rng(0).standard_normal((2, 5_000)).astype(np.float32)


@pytest.mark.parametrize(("size", "hop"), SIZES)
def test_frames_equal_those_of_tensorflow(samples, size, hop):
    frames = cut_frames(tf.constant(samples), size, hop)
    np.testing.assert_array_equal(frames, tf.signal.frame(samples, size, hop))
    np.testing.assert_allclose(
        add_frames(frames, hop), tf.signal.overlap_and_add(frames, hop), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(("size", "hop"), SIZES)
def test_the_inverse_window_undoes_the_window(samples, size, hop):
    frames = cut_frames(tf.constant(samples), size, hop) * hann_window(size)
    again = add_frames(frames * inverse_window(size, hop), hop).numpy()
    # The samples at both ends are in fewer frames.
    inside = slice(size, again.shape[1] - size)
    np.testing.assert_allclose(again[:, inside], samples[:, inside], atol=1e-5)


def test_one_graph_serves_every_length():
    @tf.function(input_signature=[tf.TensorSpec([None, None])])
    def back_and_forth(samples):
        return add_frames(cut_frames(samples, 8, 2), 2)

    for length in (8, 9, 20):
        assert back_and_forth(tf.ones([1, length])).shape == (1, length // 2 * 2)


def test_counting_frames_does_not_import_tensorflow(user_environment):
    program = "import sys, myxtts.audio.mel; assert 'tensorflow' not in sys.modules"
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
    """Return a voice-like sound, rising, between two silences."""
    time = np.arange(6_000) / 22_050
    phase = 2 * np.pi * (120 * time + 150 * time**2)
    voice = sum(np.sin(harmonic * phase) / harmonic for harmonic in range(1, 31))
    silence = np.zeros(4_000)
    return np.concatenate([silence, 0.2 * voice, silence]).astype(np.float32)


def test_a_changed_mel_needs_new_mel_rules():
    audio = AudioConfig()
    mel = clip_log_mel(audio, 80)(clean_recording(recording(), audio))
    advice = (
        "the same recording gives another mel: raise MEL_RULES in myxtts/audio/mel.py, "
        "so that prepared features are made again, and store the new numbers here"
    )
    assert mel.shape == (FRAMES_OF_THE_NUMBERS, 80), advice
    np.testing.assert_allclose(mel[::4, ::8], NUMBERS, atol=2e-3, err_msg=advice)
    assert MEL_RULES == RULES_OF_THE_NUMBERS, "MEL_RULES was raised: store its numbers here"
