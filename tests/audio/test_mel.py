import numpy as np
import pytest

from myxtts.audio.mel import LOG_FLOOR, log_mel, mel_weights
from myxtts.audio.mel_geometry import mel_frame_count
from myxtts.config.config import AudioConfig


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
        left, centre, right = edges[band : band + 3]
        triangle = np.minimum((bins - left) / (centre - left), (right - bins) / (right - centre))
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


def test_every_band_hears_something():
    assert (mel_weights(AudioConfig(), 80).sum(axis=0) > 0).all()


def test_batches_are_rows():
    generator = np.random.default_rng(1)
    clips = generator.normal(size=(3, 5_000)).astype(np.float32)
    together = log_mel(clips, AudioConfig(), 80).numpy()
    for row, clip in enumerate(clips):
        np.testing.assert_allclose(together[row], log_mel(clip, AudioConfig(), 80), atol=1e-4)
