from pathlib import Path

import pytest
import soundfile

from myxtts.data.demo import make_demo_corpus, plan_lines, sentences
from myxtts.data.metadata import LJSpeechDataset
from myxtts.errors import DataError
from myxtts.text.tokenizer import phoneme_symbols


@pytest.mark.parametrize("language", ["en", "fa"])
def test_no_sentence_is_in_both_parts(language):
    train, held_out = sentences(language)
    assert len(train) > 200
    assert len(held_out) > 20
    assert not {text.casefold() for text in train} & {text.casefold() for text in held_out}


@pytest.mark.parametrize("language", ["en", "fa"])
def test_training_sentences_cover_the_phonemes_of_the_held_out_ones(language):
    train, held_out = (
        {symbol for text in part for symbol in phoneme_symbols(text, language)}
        for part in sentences(language)
    )
    assert held_out <= train


def test_layout_speakers_and_languages(tmp_path):
    folder = tmp_path / "corpus"
    seconds = make_demo_corpus(folder, utterances=10, languages=("en", "fa"), speakers=2)
    train, held_out = LJSpeechDataset(folder), LJSpeechDataset(folder, "eval")
    assert len(train) == 10
    assert {item.speaker for item in [*train, *held_out]} == {"rob", "f2"}
    assert {item.language for item in [*train, *held_out]} == {"en", "fa"}
    clips = [soundfile.info(item.audio_path) for item in [*train, *held_out]]
    assert all(clip.samplerate == 22_050 and clip.duration > 0.8 for clip in clips)
    assert sum(clip.duration for clip in clips) == pytest.approx(seconds)
    assert not {item.text for item in train} & {item.text for item in held_out}


def test_languages_are_canonical_however_they_are_written():
    assert plan_lines(10, ("EN", "fa_IR", "en-us"), 2, 0) == plan_lines(10, ("en", "fa"), 2, 0)


def test_same_seed_same_bytes(tmp_path):
    for name in "ab":
        make_demo_corpus(tmp_path / name, utterances=4, speakers=2, seed=3)
    make_demo_corpus(tmp_path / "c", utterances=4, speakers=2, seed=4)
    files = sorted(file.relative_to(tmp_path / "a") for file in (tmp_path / "a").rglob("*.*"))
    assert all(
        (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
        for file in files
    )
    assert (tmp_path / "c" / "metadata_train.csv").read_bytes() != (
        tmp_path / "a" / "metadata_train.csv"
    ).read_bytes()


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ((10, ("de",), 2), "--languages"),
        ((10, ("english",), 2), "--languages"),
        ((10, ("en",), 2, -1), "--seed"),
        ((10, ("en",), 0), "--speakers"),
        ((0, ("en",), 1), "--utterances"),
    ],
)
def test_impossible_wishes(settings, option):
    with pytest.raises(DataError, match=option):
        plan_lines(*(*settings, 0)[:4])


def test_the_current_folder_will_do(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    make_demo_corpus(Path(), utterances=1, speakers=1)
    assert (tmp_path / "here" / "metadata_train.csv").exists()


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "precious.txt").write_text("keep me")
    with pytest.raises(DataError):
        make_demo_corpus(tmp_path, utterances=1, speakers=1)
    assert [file.name for file in tmp_path.iterdir()] == ["precious.txt"]


def test_an_unwritable_place_leaves_nothing_behind(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError):
        make_demo_corpus(tmp_path / "file" / "corpus", utterances=1, speakers=1)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
