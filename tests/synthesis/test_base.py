"""The included base model, as it is installed."""

import json

import numpy as np
import pytest

import myxtts
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError
from myxtts.models.speech_options import SpeechOptions
from myxtts.runs import run_dir
from myxtts.runs.run_dir import model_name, run_or_base
from myxtts.synthesis.tts import TTS
from myxtts.training.report import Observer


@pytest.fixture(scope="module")
def tts():
    return TTS(compiled=False)


def loudness_db(samples):
    return 20 * np.log10(np.sqrt(np.mean(samples**2)) + 1e-9)


@pytest.mark.parametrize(
    ("text", "language"), [("Good evening, how are you?", "en"), ("سلام، حال شما چطور است؟", "fa")]
)
def test_it_speaks_in_an_included_voice(tts, text, language):
    assert "callie" in tts.voices
    samples = tts.tts(text, voice="callie", language=language)
    assert 0.8 < samples.size / tts.sample_rate_hz < 4
    assert -35 < loudness_db(samples) < -10


def test_a_text_without_a_language_is_english(tts):
    assert tts.languages[0] == "en"


def test_it_speaks_in_a_voice_that_it_hears(tts, demo_corpus):
    clips = {file.stem.split("-")[-1]: file for file in (demo_corpus / "wavs").glob("*.wav")}
    assert len(clips) == 2
    one, other = (tts.tts("Good evening.", clip, "en") for clip in clips.values())
    assert one.shape != other.shape or not np.allclose(one, other)


def test_a_stream_is_as_loud_as_the_whole(tts):
    options = SpeechOptions(steps=4)
    text = "The boat leaves at seven, and nobody has packed the tent."
    whole = tts.tts(text, voice="adam", options=options)
    joined = np.concatenate(list(tts.stream(text, voice="adam", options=options)))
    assert abs(loudness_db(whole) - loudness_db(joined)) < 3


def test_the_first_chunk_of_a_stream_is_short(tts):
    stream = tts.stream("The boat leaves at seven in the evening.", voice="adam")
    assert 0.25 < next(stream).size / tts.sample_rate_hz < 0.5


def test_it_has_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    included = run_or_base(None)
    assert run_or_base("base") == included
    assert model_name(included) == "the base model"
    (tmp_path / "base").mkdir()
    assert str(run_or_base("base")) == model_name(run_or_base("base")) == "base"


def test_an_installation_without_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(run_dir, "_INCLUDED", tmp_path / "none")
    with pytest.raises(CheckpointError, match="includes no base model; give the folder of a"):
        run_or_base(None)


@pytest.mark.training
def test_a_run_starts_from_it(demo_corpus, tmp_path):
    notices = []

    class Notices(Observer):
        def on_notice(self, message):
            notices.append(message)

    config = XTTSConfig(train_data=str(demo_corpus), batch_size=2, workers=1, max_steps=1)
    myxtts.train(config, tmp_path / "run", observer=Notices())
    assert notices[0].startswith("Start: the base model")
    started = json.loads((tmp_path / "run" / "init_from.json").read_text(encoding="utf-8"))
    assert started["parts"]["decoder"]["taken"] == started["parts"]["decoder"]["of"] > 0
