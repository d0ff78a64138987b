import pytest

from myxtts.text.languages import find_language
from myxtts.text.sentences import ABBREVIATIONS, SentenceRules


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("No end", ["No end"]),
        ("Dr. Smith met Mr. Jones. They spoke.", ["Dr. Smith met Mr. Jones.", "They spoke."]),
        ("It cost 3.50 in all. Good.", ["It cost 3.50 in all.", "Good."]),
        ("J. R. Brown wrote it.", ["J. R. Brown wrote it."]),
        ("Many, e.g. these. Others.", ["Many, e.g. these.", "Others."]),
        ("سلام! حال شما چطور است؟ خوبم.", ["سلام!", "حال شما چطور است؟", "خوبم."]),
        ("first line\nsecond line\n\n", ["first line", "second line"]),
        ("Well... yes.", ["Well...", "yes."]),
        ("  ", []),
    ],
)
@pytest.mark.parametrize("language", ["en", "fa", "de"])
def test_sentences(text, language, sentences):
    assert find_language(language).sentences.split(text) == sentences


def test_a_language_may_have_marks_and_abbreviations_of_its_own():
    rules = SentenceRules(terminators=".।", abbreviations=(*ABBREVIATIONS, "z.B"))
    assert rules.split("यह है। वह है।") == ["यह है।", "वह है।"]
    assert rules.split("Vieles, z.B. das. Dr. No!") == ["Vieles, z.B. das.", "Dr. No!"]
