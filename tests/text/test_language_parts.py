import pytest

from myxtts.text.language_parts import language_parts, main_language


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
