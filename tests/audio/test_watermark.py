"""The mark is found after what files go through, and in nothing else."""

import io

import numpy as np
import pytest
import soundfile
import soxr

from myxtts.audio.files import read_audio
from myxtts.audio.watermark import Marker, find_watermark, with_watermark

RATE = 22_050


@pytest.fixture(scope="module")
def speech(demo_corpus) -> np.ndarray:
    """Some ten seconds."""
    files = sorted((demo_corpus / "wavs").glob("*.wav"))
    return np.concatenate([read_audio(file, RATE) for file in files])[: 10 * RATE]


@pytest.fixture(scope="module")
def marked(speech) -> np.ndarray:
    return with_watermark(speech, RATE)


def with_noise(samples: np.ndarray, ratio_db: float) -> np.ndarray:
    noise = np.random.default_rng(1).standard_normal(samples.size).astype(np.float32)
    return samples + noise * samples.std() * 10 ** (-ratio_db / 20)


def through_mp3(samples: np.ndarray) -> np.ndarray:
    file = io.BytesIO()
    soundfile.write(
        file, samples, RATE, format="MP3", bitrate_mode="CONSTANT", compression_level=0.6
    )
    assert file.tell() * 8 < 70_000 * samples.size / RATE
    file.seek(0)
    return soundfile.read(file, dtype="float32")[0]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda samples: samples, id="nothing"),
        pytest.param(through_mp3, id="mp3 at 64 kbit/s"),
        pytest.param(lambda samples: with_noise(samples, 10), id="noise of 10 dB"),
        pytest.param(lambda samples: samples[12_345:], id="cut"),
        pytest.param(lambda samples: 0.1 * samples, id="quieter"),
        pytest.param(lambda samples: with_noise(through_mp3(samples), 10), id="mp3 and noise"),
    ],
)
def test_it_is_found_after_what_files_go_through(speech, marked, change):
    found, not_there = (find_watermark(change(one), RATE) for one in (marked, speech))
    assert found.is_marked
    assert not not_there.is_marked
    assert found.score > not_there.score + 1


@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100])
def test_it_is_found_at_other_rates(marked, rate):
    assert find_watermark(soxr.resample(marked, RATE, rate), rate).is_marked


def test_it_is_far_below_the_speech(speech, marked):
    below = 10 * np.log10(np.mean(speech**2) / np.mean((marked - speech) ** 2))
    assert below > 20
    silence = np.zeros(RATE, np.float32)
    np.testing.assert_allclose(with_watermark(silence, RATE), silence, atol=1e-6)


def test_a_file_that_is_marked_in_pieces(speech):
    marker = Marker(RATE)
    pieces = [marker(piece) for piece in np.split(speech, [200, 30_000, 31_000, 120_000])]
    assert [piece.size for piece in pieces] == [200, 29_800, 1_000, 89_000, speech.size - 120_000]
    assert find_watermark(np.concatenate(pieces), RATE).is_marked


@pytest.mark.parametrize("samples", [0, 1, 100, 5_000])
def test_short_sounds(samples):
    sound = np.full(samples, 0.1, np.float32)
    assert with_watermark(sound, RATE).shape == sound.shape
    assert not find_watermark(sound, RATE).is_marked
