import subprocess
import sys

import espeakng_loader
import numpy as np
import pytest

from myxtts.errors import DataError
from myxtts.text import espeak
from myxtts.text.tokenizer import phoneme_symbols, split_symbols, text_symbols


def test_stress_and_length_stay_with_their_vowel():
    assert split_symbols("mˈɛʒɚː ˌaɪ") == ["m", "ˈɛ", "ʒ", "ɚː", " ", "ˌa", "ɪ"]


def test_punctuation_is_kept_where_it_stands():
    symbols = phoneme_symbols("Well, is it you? Yes!", "en")
    assert [symbol for symbol in symbols if symbol in ",?!"] == [",", "?", "!"]
    assert symbols[-1] == "!"
    assert symbols[symbols.index(",") + 1] == " "


def test_persian_has_phonemes_and_shares_punctuation():
    symbols = phoneme_symbols("سلام، حال شما چطور است؟", "fa")
    assert symbols[-1] == "?"
    assert "," in symbols
    assert {"s", "l", "m"} <= {symbol.strip("ˈˌː") for symbol in symbols}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("کِرم", "kerm"),
        ("کُره", "kore"),
        ("کَره", "kare"),
        ("کُرّه", "korre"),
        ("مُعَلِّم", "moʔallem"),
        ("سَلَامٌ", "salɑmon"),
        ("تُو", "to"),
        ("سِیاه", "sijɑh"),
        ("خِیلی", "xejli"),
        ("مُؤَثِّر", "moʔasser"),
        ("سلاَم", "salɑm"),
        ("رابِطه", "rɑbete"),
        ("دِه", "deh"),
        ("قَهوه", "qahveh"),
        ("نُه", "noh"),
        ("نه", "na"),
        ("غذا", "qazɑ"),
        ("زیبایی", "zibɑji"),
        ("خانه‌ای", "xɑneʔi"),
        ("رعایت", "reʔɑjat"),
        ("نبردهایشان", "nabardhɑjeʃɑn"),
        ("پنج گرم آب گرم", "pandʒ ɡeram ɑbe ɡarm"),
    ],
)
def test_persian_words(written, said):
    assert _without_stress(text_symbols(written, "fa", "phonemes")) == said


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("کتابِ من", "ketɑbe man"),
        ("حکومتِ ایران", "hokumate irɑn"),
        ("گفتنِ این", "ɡoftane in"),
        ("پایِ من", "pɑje man"),
        ("رویِ میز", "ruje miz"),
        ("کتاب‌هایِ من", "ketɑbhɑje man"),
        ("راهِ من", "rɑhe man"),
        ("خانهِ من", "xɑneje man"),
        ("خانهٔ من", "xɑneje man"),
        ("خانه‌ی من", "xɑneje man"),
        ("رابِطهٔ من", "rɑbeteje man"),
        ("حقِ ما", "haqqe mɑ"),
        ("کشتیِ نو", "keʃtije no"),
        ("برای من", "barɑje man"),
    ],
)
@pytest.mark.parametrize("ezafe", [False, True])
def test_a_written_ezafe_is_said_once(written, said, ezafe):
    assert _without_stress(text_symbols(written, "fa", "phonemes", ezafe=ezafe)) == said


def test_an_unwritten_ezafe_is_said_if_wanted():
    text = "کتاب خوب من"
    assert _without_stress(text_symbols(text, "fa", "phonemes")) == "ketɑbe xube man"
    assert _without_stress(text_symbols(text, "fa", "phonemes", ezafe=False)) == "ketɑb xub man"


@pytest.mark.parametrize("mark", "،؛:.؟!")
def test_no_ezafe_before_a_mark(mark):
    symbols = text_symbols(f"کتاب{mark} خوب", "fa", "phonemes")
    assert _without_stress(symbols[: symbols.index(" ") - 1]) == "ketɑb"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("کشور", "keʃvˈar"),
        ("تهران", "tehrˈɑn"),
        ("کشورِ من", "keʃvˈare mˈan"),
        ("کتاب‌ها", "ketɑbhˈɑ"),
        ("بزرگ‌ترین", "bozorɡtarˈin"),
        ("کتاب‌هایشان", "ketɑbhˈɑjeʃɑn"),
        ("خانه‌ای", "xɑnˈeʔi"),
        ("رفته‌ام", "raftˈeʔam"),
        ("می‌خواهم", "mˈixɑham"),
        ("نمی‌خواهم", "nˈemixɑham"),
        ("برنمی‌گردد", "barnˈemiɡardad"),
        ("برویم", "bˈeravim"),
        ("نرفتند", "nˈaraftand"),
        ("رفتند", "rˈaftand"),
        ("شدید", "ʃadˈid"),
        ("اگر", "ˈaɡar"),
        ("را", "rɑ"),
        ("از", "az"),
    ],
)
def test_persian_stress(written, said):
    assert "".join(text_symbols(written, "fa", "phonemes")) == said


def test_older_runs_are_read_as_they_were_trained():
    assert "".join(text_symbols("قهوه خوب", "fa", "phonemes", rules=2)) == "q1ˈahveː xˈuːb"
    assert "".join(text_symbols("کتابِ خوب", "fa", "phonemes", rules=2)) == "kˈetɑbe xˈuːb"


def _without_stress(symbols):
    return "".join(symbol.strip("ˈˌ") for symbol in symbols)


def test_a_language_that_espeak_does_not_know():
    with pytest.raises(DataError, match="xx-none"):
        phoneme_symbols("hello", "xx-none")


def test_voices_differ():
    low, high = (espeak.speak("Good morning.", voice) for voice in ("en-us+rob", "en-us+f2"))
    assert 0.5 < low.size / espeak.SAMPLE_RATE_HZ < 3
    assert not np.array_equal(low, high)


def test_after_a_text_of_which_nothing_is_heard_others_are():
    before = espeak.speak("Good morning.", "en-us")
    assert not espeak.speak(" ", "en-us").any()
    after = espeak.speak("Good morning.", "en-us")
    assert after.any()
    assert abs(after.size - before.size) < 0.05 * before.size
    assert espeak.phonemes("hello", "en-us") == "həlˈoʊ"


def test_a_data_folder_with_a_long_name_still_works(tmp_path):
    """espeak-ng alone cuts names of more than 160 bytes."""
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    (deep / "espeak-ng-data").symlink_to(espeakng_loader.get_data_path())
    program = (
        "import espeakng_loader, sys\n"
        "espeakng_loader.get_data_path = lambda: sys.argv[1]\n"
        "from myxtts.text import espeak\n"
        "print(espeak.phonemes('yes', 'en-us'))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(deep / "espeak-ng-data")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ɛ" in result.stdout


def test_a_fraction_of_a_text_is_not_taken_for_the_whole(monkeypatch):
    text = "He opened the door and looked into the garden."
    whole = espeak.speak(text, "en-us")
    answers = iter([whole[: whole.size // 5], whole])
    monkeypatch.setattr(espeak, "_spoken", lambda *_: next(answers))
    assert espeak.speak(text, "en-us").size == whole.size
