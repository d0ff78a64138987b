"""The base model finds the text of a clip in its sound, and no other."""

import pytest

from myxtts.audio.files import write_audio
from myxtts.collect.corpus import CorpusFolder
from myxtts.collect.texts import measure_agreement, open_listener
from myxtts.synthesis.tts import TTS

SAID = "The old boat was painted green last summer."
OTHER = "Seven people waited there for a quiet train."


@pytest.fixture(scope="module")
def listener():
    return open_listener("en-gb")


@pytest.fixture(scope="module")
def speech():
    return TTS(compiled=False).tts(SAID)


def test_the_right_text_agrees_and_another_does_not(listener, speech):
    assert listener.agreement(speech, SAID) > 0.15
    assert abs(listener.agreement(speech, OTHER)) < 0.1


def test_a_text_that_is_too_long_for_its_clip_does_not_agree(listener, speech):
    assert listener.agreement(speech[: listener.sample_rate_hz // 2], SAID) == 0.0


def test_what_cannot_be_said_is_not_judged(listener, speech):
    assert listener.agreement(speech, "...") is None


def test_a_language_that_the_base_does_not_know_has_no_listener():
    assert open_listener("nl") is None


def test_agreements_are_kept_for_the_next_launch(listener, speech, tmp_path, monkeypatch):
    folder = CorpusFolder(tmp_path)
    for part in (folder.clips, folder.agreements.parent):
        part.mkdir()
    write_audio(folder.clip("one"), speech, listener.sample_rate_hz)
    first = measure_agreement({"one": SAID}, folder, listener)
    corrected = measure_agreement({"one": OTHER}, folder, listener)
    assert corrected["one"] < first["one"]
    monkeypatch.setattr(listener, "agreement", None)
    assert measure_agreement({"one": SAID}, folder, listener) == first
