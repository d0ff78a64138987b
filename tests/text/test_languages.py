"""What tags mean, and what every language of the registry must have."""

from pathlib import Path

import espeakng_loader
import pytest

from myxtts.errors import DataError
from myxtts.text import espeak
from myxtts.text.languages import (
    REGISTRY,
    SPOKEN_LIKE,
    VOICES,
    find_language,
    language_parts,
    main_language,
    parse_tag,
)
from myxtts.text.tokenizer import is_spoken, text_symbols, unsayable

ENGLISH = "The schedule of Doctor Tomato was £5 at 10:30, not later."
PERSIAN = "کتابِ من ۵ تومان بود."


@pytest.mark.parametrize(
    ("tag", "code", "voice"),
    [
        ("en", "en", "en-us"),
        ("en_US", "en", "en-us"),
        ("en-us", "en", "en-us"),
        (" en-Latn-US ", "en", "en-us"),
        ("en-CA", "en", "en-us"),
        ("en-GB", "en-gb", "en"),
        ("en_uk", "en-gb", "en"),
        ("en-AU", "en-gb", "en"),
        ("en-GB-scotland", "en-gb-scotland", "en-gb-scotland"),
        ("en-029", "en-029", "en-029"),
        ("fa", "fa", "fa"),
        ("fa-IR", "fa", "fa"),
        ("fa-Arab-IR", "fa", "fa"),
        ("fa-u-nu-latn", "fa", "fa"),
        ("fa-Latn", "fa-latn", "fa-latn"),
        ("de-DE", "de", "de"),
        ("de-CH-1996", "de", "de"),
        ("pt-BR", "pt-br", "pt-br"),
        ("es-MX", "es-419", "es-419"),
        ("vi-VN-x-south", "vi-vn-x-south", "vi-vn-x-south"),
        ("zh-Hant-TW", "zh", "cmn"),
        ("no", "no", "nb"),
        ("xx-None", "xx-none", "xx-none"),
    ],
)
def test_tags(tag, code, voice):
    for written in (tag, code):
        assert parse_tag(written) == code
        assert find_language(written).code == code
        assert find_language(written).espeak_voice == voice


@pytest.mark.parametrize(
    ("tag", "hint"),
    [
        ("english", "; did you mean 'en'?"),
        ("Farsi", "; did you mean 'fa'?"),
        ("en_US.UTF-8", "; did you mean 'en-us'?"),
        ("fa/IR", "; did you mean 'fa'?"),
        ("???", ""),
        ("", ""),
        ("en" + "-a" * 40, ""),
    ],
)
def test_what_is_not_a_tag_gets_one_line_with_the_nearest(tag, hint):
    with pytest.raises(DataError) as error:
        parse_tag(tag, "--language")
    assert str(error.value).startswith("--language: ")
    assert str(error.value).endswith(hint)


@pytest.mark.parametrize("kind", ["phonemes", "graphemes"])
@pytest.mark.parametrize(
    ("text", "code", "tags"),
    [
        (ENGLISH, "en", ["EN", "en_US", "en-us", "En"]),
        (ENGLISH, "en-gb", ["en-GB", "en_GB", "en-uk"]),
        (PERSIAN, "fa", ["FA", "fa-IR", "fa_IR", "fa-ir"]),
        ("Guten Tag, 5 Euro.", "de", ["DE", "de-DE", "de_AT"]),
    ],
)
def test_every_spelling_of_a_tag_gives_the_same_symbols(text, code, tags, kind):
    symbols = text_symbols(text, code, kind)
    assert any(map(is_spoken, symbols))
    assert all(text_symbols(text, tag, kind) == symbols for tag in tags)
    assert all(unsayable(text, tag, kind) == unsayable(text, code, kind) for tag in tags)


def test_the_table_of_voices_is_that_of_the_library():
    folder = Path(espeakng_loader.get_data_path()) / "lang"
    there = {file.name.lower() for file in folder.rglob("*") if file.is_file()}
    assert set(VOICES.values()) == there
    assert set(SPOKEN_LIKE.values()) <= VOICES.keys()


@pytest.mark.parametrize("voice", sorted(VOICES.values()))
def test_every_voice_of_the_table_can_be_chosen(voice):
    assert isinstance(espeak.phonemes("a", voice), str)


@pytest.mark.parametrize("code", REGISTRY)
class TestEveryEntry:
    def test_is_found_by_its_code_and_its_names(self, code):
        assert parse_tag(code) == code
        assert find_language(code) is REGISTRY[code]
        assert REGISTRY[code].names
        for name in REGISTRY[code].names:
            with pytest.raises(DataError, match=f"did you mean '{code}'"):
                parse_tag(name)

    def test_has_a_voice_and_greets_with_it(self, code):
        language = REGISTRY[code]
        assert language.espeak_voice in VOICES.values()
        assert any(map(is_spoken, text_symbols(language.greeting, code, "phonemes")))

    def test_normalizes_numbers_once(self, code):
        language = REGISTRY[code]
        for normalize in (language.normalize, language.normalize_for_phonemes):
            if normalize is not None:
                spoken = normalize(f"{language.greeting} 1984")
                assert not any(map(str.isdigit, spoken))
                assert normalize(spoken) == spoken

    @pytest.mark.parametrize("kind", ["phonemes", "graphemes"])
    def test_can_say_all_of_its_demo_sentences(self, code, kind):
        language = REGISTRY[code]
        sentences = language.demo_sentences()
        assert len(sentences) > 200
        for sentence in sentences:
            assert language.sentences.split(sentence)
            assert unsayable(language.normalize(sentence), code, kind) == []
            assert any(map(is_spoken, text_symbols(sentence, code, kind)))


@pytest.mark.parametrize(
    ("text", "main", "parts"),
    [
        ("Hello there.", "en", [("Hello there.", "en")]),
        (
            "من از GitHub و Google Maps استفاده می‌کنم، ۵ بار.",
            "fa",
            [
                ("من از", "fa"),
                ("GitHub", "en"),
                ("و", "fa"),
                ("Google Maps", "en"),
                ("استفاده می‌کنم، ۵ بار.", "fa"),
            ],
        ),
        ("The word سلام 5 times", "en", [("The word", "en"), ("سلام 5", "fa"), ("times", "en")]),
        ("42", "fa", [("42", "fa")]),
        ("Привет friend", "en", [("Привет friend", "en")]),
    ],
)
def test_each_word_belongs_to_a_language_of_its_script(text, main, parts):
    assert language_parts(text, main, ("en", "fa")) == parts


def test_a_model_of_one_language_has_one_part():
    assert language_parts("The word سلام", "en", ("en",)) == [("The word سلام", "en")]


def test_the_language_of_most_letters():
    assert main_language(language_parts("سلام دوست من OK", "en", ("en", "fa")), "en") == "fa"
    assert main_language(language_parts("123", "en", ("en", "fa")), "fa") == "fa"
    assert main_language([], "en") == "en"
