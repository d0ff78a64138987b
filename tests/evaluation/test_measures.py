"""The measures that need nothing to be installed put good and bad speech in the right order."""

import numpy as np
import pytest

from myxtts.audio.mel import warp
from myxtts.audio.pretrained import bare_words
from myxtts.config.config import LOWER_IS_BETTER
from myxtts.evaluation.measures import (
    BUILT_IN,
    SPEECH_METRICS,
    AgainstRecording,
    Levels,
    Tool,
    pitch_hz,
)

RATE_HZ = 16_000


@pytest.fixture(scope="module")
def against_recording(speech_of):
    measure = AgainstRecording()
    names = ("recording", "copy", "words swapped", "other voice", "noise")
    return {
        name: {metric: score.value for metric, score in measure.scores(speech_of(name)).items()}
        for name in names
    }


@pytest.mark.parametrize(
    ("metric", "order"),
    [
        ("mel_cepstral_distance", "recording copy other_voice noise"),
        ("mel_cepstral_distance", "recording copy words_swapped noise"),
        ("pitch_error", "recording copy words_swapped other_voice"),
        ("voicing_error", "recording copy words_swapped noise"),
        ("voicing_error", "recording other_voice noise"),
    ],
)
def test_the_order_is_right(against_recording, metric, order):
    values = [against_recording[name.replace("_", " ")][metric] for name in order.split()]
    assert values[0] == pytest.approx(0, abs=1e-6)
    assert values == sorted(values)
    assert len(set(values)) == len(values)


def test_noise_has_no_pitch_to_be_wrong(against_recording):
    assert "pitch_error" not in against_recording["noise"]


def test_the_distance_does_not_hear_loudness(speech_of, sayings):
    quiet = AgainstRecording().scores(speech_of("recording", waveform=sayings["recording"] / 4))
    assert quiet["mel_cepstral_distance"].value < 0.05


def test_slower_speech_lasts_longer_and_has_fewer_characters_a_second(speech_of, sayings):
    import soxr

    slow = soxr.resample(sayings["recording"], 2, 3)
    slow_speech = speech_of("recording", waveform=slow)
    assert AgainstRecording().scores(slow_speech)["duration_ratio"].value == pytest.approx(
        1.5, rel=0.02
    )
    pace, slow_pace = (
        Levels().scores(speech)["characters_per_second"].value
        for speech in (speech_of("recording"), slow_speech)
    )
    assert pace == pytest.approx(1.5 * slow_pace, rel=0.02)


@pytest.mark.parametrize("wanted_hz", [80.0, 131.3, 220.0, 440.0])
def test_the_pitch_of_a_known_tone(wanted_hz):
    seconds = np.arange(RATE_HZ) / RATE_HZ
    tone = sum(np.sin(2 * np.pi * wanted_hz * k * seconds) / k for k in range(1, 6))
    heard = pitch_hz(tone.astype(np.float32), 160)
    assert heard.size == 101
    middle = heard[10:-10]
    np.testing.assert_allclose(middle, wanted_hz, rtol=0.005)


def test_no_pitch_in_silence_and_noise():
    assert np.isnan(pitch_hz(np.zeros(RATE_HZ, np.float32), 160)).all()
    noise = np.random.default_rng(0).standard_normal(RATE_HZ).astype(np.float32)
    assert np.isnan(pitch_hz(noise, 160)).mean() > 0.95


def test_time_warping_follows_a_sequence_that_dwells():
    once = np.array([0.0, 1.0, 2.0, 3.0])
    dwelling = np.array([0.0, 0.0, 1.0, 2.0, 2.0, 2.0, 3.0])
    rows, columns = warp(np.abs(once[:, None] - dwelling[None]))
    np.testing.assert_array_equal(once[rows], dwelling[columns])
    assert (rows[0], columns[0], rows[-1], columns[-1]) == (0, 0, 3, 6)


def test_clipping_and_silence_are_shares(speech_of):
    waveform = np.full(22_050, 0.5, np.float32)
    waveform[:2_205] = 1.0
    waveform[11_025:] = 0.0
    scores = Levels().scores(speech_of("recording", waveform=waveform, making_seconds=0.25))
    assert scores["clipping"].value == pytest.approx(0.1)
    assert scores["silence"].value == pytest.approx(0.5, abs=0.02)
    assert scores["real_time_factor"].value == pytest.approx(0.25)


def test_recordings_take_no_time_to_make(speech_of):
    assert "real_time_factor" not in Levels().scores(speech_of("recording"))


@pytest.mark.parametrize(
    ("text", "language", "words"),
    [
        ("It's 42, isn't it?", "en", "it's forty-two isn't it"),
        ("", "en", ""),
        ("سلام، دنیا!", "fa", "سلام دنیا"),
    ],
)
def test_what_can_be_heard_of_a_text(text, language, words):
    assert bare_words(text, language) == words.replace("-", " ")


def test_a_tool_is_not_asked_about_languages_that_it_does_not_know():
    english = Tool(name="ear", license="MIT", languages=("en",))
    assert all(map(english.understands, ("en", "en-us", "EN", "en_GB")))
    assert not english.understands("fa")
    assert BUILT_IN.understands("fa")


def test_every_figure_says_which_way_is_better():
    names = [metric.name for metric in SPEECH_METRICS]
    assert len(set(names)) == len(names)
    judged = {metric.name for metric in SPEECH_METRICS if metric.better != "as recorded"}
    assert judged <= set(LOWER_IS_BETTER)
    of_runs = ("loss", "_mel_distance")
    assert {name for name in LOWER_IS_BETTER if not name.endswith(of_runs)} == judged
