import json

import pytest

from myxtts.data.durations import DURATIONS_FILE, pronunciation, read_durations
from myxtts.data.metadata import LJSpeechDataset
from myxtts.errors import DataError


def clip(units, **more):
    return {"audio_file": "wavs/a.wav", "units": units, **more}


def test_stress_and_short_spaces_belong_to_the_next_sound():
    found = pronunciation(
        clip(
            [
                ["d", "d", 0.1, 0.2],
                [" ", " ", 0.2, 0.3],
                ["s", "s", 0.3, 0.4],
                ["ˈ", "ˈ", 0.4, 0.45],
                ["ɛ", "ɛ", 0.45, 0.6],
            ]
        )
    )
    assert found.symbols == ("d", " ", "s", "ˈɛ")
    assert found.start == 0.1
    assert found.ends == pytest.approx((0.2, 0.2, 0.4, 0.6))


def test_pauses_belong_to_their_mark_or_their_space():
    units = [
        ["a", 0.0, 0.1],
        [",", 0.1, 0.3],
        [" ", 0.3, 0.4],
        ["b", 0.4, 0.5],
        [" ", 0.5, 0.9],
        ["c", 0.9, 1.0],
    ]
    found = pronunciation(clip(units))
    assert found.symbols == ("a", ",", " ", "b", " ", "c")
    assert found.ends == pytest.approx((0.1, 0.4, 0.4, 0.5, 0.9, 1.0))


def test_letters_of_a_unit_share_its_time_and_modifiers_have_none():
    found = pronunciation(clip([["ˈ", 0.0, 0.1], ["oʊ", 0.1, 0.3], ["iː", 0.3, 0.5]]))
    assert found.symbols == ("ˈo", "ʊ", "iː")
    assert found.ends == pytest.approx((0.2, 0.3, 0.5))


def test_what_is_inaudible_at_the_end_is_no_sound():
    found = pronunciation(clip([["l", 0.0, 0.5], [".", 0.5, 0.5]], audible=[0.0, 0.4]))
    assert found.ends == pytest.approx((0.4, 0.4))


def test_a_corpus_brings_them_along(demo_corpus, tmp_path):
    first = LJSpeechDataset(demo_corpus)[0]
    assert first.pronunciation is None
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "metadata.csv").write_text("audio_file|text\nwavs/a.wav|ab\n", encoding="utf-8")
    units = [["a", 0.0, 0.1], ["b", 0.1, 0.2]]
    (folder / DURATIONS_FILE).write_text(json.dumps(clip(units)) + "\n", encoding="utf-8")
    [item] = LJSpeechDataset(folder, validation_fraction=None)
    assert item.pronunciation.symbols == ("a", "b")


def test_a_broken_line_is_an_error(tmp_path):
    (tmp_path / DURATIONS_FILE).write_text('{"audio_file": "a.wav"}\n', encoding="utf-8")
    with pytest.raises(DataError):
        read_durations(tmp_path)
