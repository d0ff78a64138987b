"""What holds for every language, and how languages are chosen."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.text.languages import normalize
from myxtts.text.persian_phonemes import VOWEL_SIGNS

LANGUAGES = ["en", "fa", "de", "xx"]

# Pieces that the rules look for, so that random joins of them meet the rules' borders.
PIECES = [
    "5", "12", "007", "1984", "1,234", "3.14", "1/2", "2½", "۱۴۰۲", "٣", "²", "Ⅳ", "①",
    "1234567890", "$", "€", "%", "٪", "°C", "km", "m²", "pm", "p.m.", "a.m", "st", "th", "ام",
    "م", "مین", "Mr", "Mrs.", "Dr.", "St.", "etc.", "e.g.", "No.", "U.S.", "King Henry VIII",
    "Chapter I", "March", "May", "Jan.", "in", "the", "The", "می", "نمی", "شود", "ها", "تر",
    "ترین", "ه.ش.", "ق.م.", "ص.", "د.", "(ع)", "مرداد", "http://", "www.a.com", "a@b.co", ".",
    ",", "،", "؟", "?", "!", ";", "؛", ":", "'", '"', "-", "—", "–", "/", "(", ")", "«", "»", "…",
    "#", "&", "+", "=", "^", "~", "*", "_", " ", "  ", "\n", "\u200c", "\u200d", "\u200e", "ـ",
    "ً", "ٔ", "\u064e", "\u064f", "\u0650", "\u0651", "\u0652", "\u0670",
    "می شَوَد", "ماهِ", "هایِ", "ۀ", "ه", "ي", "ك", "é", "e\u0301", "ß", "漢", "😀", "x", "I",
]  # fmt: skip
ANY_TEXT = st.one_of(
    st.text(),
    st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join),
)
ANY_LANGUAGE = st.sampled_from(LANGUAGES)
short_run = settings(max_examples=200, deadline=None)


@short_run
@given(ANY_TEXT, ANY_LANGUAGE)
def test_a_second_pass_changes_nothing(text: str, language: str) -> None:
    once = normalize(text, language)
    assert normalize(once, language) == once


@short_run
@given(ANY_TEXT)
def test_a_second_pass_keeps_the_vowel_signs(text: str) -> None:
    once = normalize(text, "fa", keep_vowel_signs=True)
    assert normalize(once, "fa", keep_vowel_signs=True) == once


@short_run
@given(ANY_TEXT)
def test_words_with_vowel_signs_are_treated_as_without(text: str) -> None:
    signed = normalize(text, "fa", keep_vowel_signs=True)
    assert re.sub(f"[{VOWEL_SIGNS}]", "", signed) == normalize(text, "fa")


@short_run
@given(ANY_TEXT, ANY_LANGUAGE)
def test_speakable_text_is_never_lost(text: str, language: str) -> None:
    if any(char.isalpha() or char.isdigit() for char in text):
        assert normalize(text, language)


@short_run
@given(ANY_TEXT, ANY_LANGUAGE)
def test_spaces_are_single_and_inside(text: str, language: str) -> None:
    spoken = normalize(text, language)
    assert spoken == " ".join(spoken.split())


@short_run
@given(ANY_TEXT, st.sampled_from(["en", "fa"]))
def test_no_digit_is_left(text: str, language: str) -> None:
    assert not any(char.isdigit() for char in normalize(text, language))


@short_run
@given(ANY_TEXT)
def test_english_holds_only_words_and_light_punctuation(text: str) -> None:
    assert not re.search(r"[^\w\s.,?!;:']|_", _without_combining_signs(normalize(text, "en")))


@short_run
@given(ANY_TEXT)
def test_persian_holds_only_words_and_light_punctuation(text: str) -> None:
    spoken = _without_combining_signs(normalize(text, "fa"))
    assert not re.search(r"[^\w\s.،؛؟!:\u200c]|_", spoken)


@short_run
@given(st.text(), st.text())
def test_any_language_code_is_accepted(text: str, language: str) -> None:
    normalize(text, language)


@pytest.mark.parametrize(
    ("text", "language", "spoken"),
    [
        ("5 km", "en", "five kilometers"),
        ("5 km", "en-us", "five kilometers"),
        ("5 km", "EN_GB", "five kilometers"),
        ("5 km", "fa", "پنج کیلومتر"),
        ("5 km", "fa-ir", "پنج کیلومتر"),
        ("5 km", "de", "fünf km"),
        ("5km", "de", "fünf km"),
        ("3,5 Liter", "de", "drei Komma fünf Liter"),
        ("1.234 Euro", "de", "eintausendzweihundertvierunddreißig Euro"),
        ("-7 Grad", "de-at", "minus sieben Grad"),
        ("um 10-12 Uhr", "de", "um zehn-zwölf Uhr"),
        ("21 ans", "fr", "vingt et un ans"),
        ("21 anos", "pt-br", "vinte e um anos"),
        ("5人", "ja", "五人"),
        ("-7 stopni", "pl", "-siedem stopni"),
        ("3,5 kilo", "tr", "3,5 kilo"),
        ("5 km", "xx", "5 km"),
        ("„Guten Tag“ – ‚ja‘", "de", "\"Guten Tag\" - 'ja'"),
        ("a\u200e b\x07\u00a0 c\n", "xx", "a b c"),
        ("e\u0301", "xx", "é"),
        ("", "en", ""),
        ("?!", "en", ""),
        ("1" * 5000, "xx", "1" * 5000),
    ],
)
def test_examples(text: str, language: str, spoken: str) -> None:
    assert normalize(text, language) == spoken


@pytest.mark.parametrize("language", LANGUAGES)
def test_very_long_digit_strings_are_read(language: str) -> None:
    assert normalize("9" * 5000, language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_lone_surrogates_are_removed(language: str) -> None:
    assert normalize("a\ud800b", language) == "ab"


def _without_combining_signs(text: str) -> str:
    r"""Python's \w leaves combining signs out, although they belong to words."""
    return "".join(char for char in text if not unicodedata.category(char).startswith("M"))
