import pytest

from myxtts.synthesis.sentences import split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("No end", ["No end"]),
        ("Dr. Smith met Mr. Jones. They spoke.", ["Dr. Smith met Mr. Jones.", "They spoke."]),
        ("It cost 3.50 in all. Good.", ["It cost 3.50 in all.", "Good."]),
        ("J. R. Brown wrote it.", ["J. R. Brown wrote it."]),
        ("سلام! حال شما چطور است؟ خوبم.", ["سلام!", "حال شما چطور است؟", "خوبم."]),
        ("first line\nsecond line\n\n", ["first line", "second line"]),
        ("Well... yes.", ["Well...", "yes."]),
        ("  ", []),
    ],
)
def test_sentences(text, sentences):
    assert split_sentences(text) == sentences
