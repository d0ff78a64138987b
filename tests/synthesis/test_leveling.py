"""The level, the peaks and the ends of what is spoken."""

import numpy as np
import pytest
import soundfile

from myxtts.models.speech_options import SpeechOptions
from myxtts.synthesis.speaker import Leveler, speech_level_dbfs
from myxtts.synthesis.tts import EDGE_SECONDS

RATE = 22_050
MAX_PEAK = 10 ** (-1 / 20)


@pytest.fixture(scope="module")
def spiky():
    """Noise in syllables, with pauses, and peaks far above its level."""
    generator = np.random.default_rng(0)
    envelope = np.clip(np.sin(np.arange(2 * RATE) / 1_500), 0.0, 1.0)
    samples = 0.1 * envelope * generator.standard_normal(2 * RATE)
    samples[3_000::7_001] = 0.9
    return samples.astype(np.float32)


def leveled(chunks, gain_db):
    leveler = Leveler(gain_db, RATE)
    return np.concatenate([*map(leveler.push, chunks), leveler.finish()])


@pytest.mark.parametrize("gain_db", [-6.0, 0.0, 12.0])
def test_peaks_are_limited_and_no_sample_is_lost(spiky, gain_db):
    result = leveled([spiky], gain_db)
    assert result.size == spiky.size
    assert np.abs(result).max() < MAX_PEAK
    # Away from peaks and both ends there is the gain and nothing else.
    quiet = slice(4_000, 9_000)
    if gain_db <= 0:
        np.testing.assert_allclose(result[quiet], spiky[quiet] * 10 ** (gain_db / 20), rtol=1e-4)


@pytest.mark.parametrize("size", [0, 1, 50, 110, 111, 300])
def test_short_lines_are_complete(spiky, size):
    assert leveled([spiky[:size]], 3.0).size == size


def test_chunks_are_leveled_like_the_whole(spiky):
    cuts = np.split(spiky, [1, 60, 200, 5_000, 5_050, 30_000])
    np.testing.assert_allclose(leveled(cuts, 9.0), leveled([spiky], 9.0), atol=1e-6)


def test_pauses_do_not_count_and_silence_is_left_alone(spiky):
    paused = np.concatenate([spiky, np.zeros(4 * RATE, np.float32)])
    assert speech_level_dbfs(paused, RATE) == pytest.approx(speech_level_dbfs(spiky, RATE), abs=0.1)
    assert not leveled([np.zeros(RATE, np.float32)], 20.0).any()


@pytest.mark.parametrize("loudness", [-20.0, -30.0])
def test_a_file_has_the_wanted_level_and_silent_ends(tts, recordings, tmp_path, loudness):
    options = SpeechOptions(steps=2, loudness=loudness)
    voice, file = tts.voice(recordings[0]), tmp_path / "out.wav"
    tts.tts_to_file(text="Good morning.", speaker_wav=voice, file_path=file, options=options)
    written, rate = soundfile.read(file, dtype="float32")
    edge = int(EDGE_SECONDS * rate)
    assert not written[:edge].any()
    assert not written[-edge:].any()
    assert np.abs(written).max() < MAX_PEAK
    speech = tts.tts("Good morning.", voice, options=options)
    np.testing.assert_allclose(written[edge:-edge], speech, atol=1e-4)
    # The limiter takes a little away where peaks are high.
    assert loudness - 1.5 < speech_level_dbfs(speech, rate) < loudness + 0.5


def test_the_level_of_a_tts_is_used_without_options(tts, trained_run, recordings):
    quiet = type(tts)(trained_run, loudness=-35.0)
    level = speech_level_dbfs(quiet.tts("Good morning.", recordings[0]), RATE)
    assert level == pytest.approx(-35.0, abs=0.5)
