import pytest

from myxtts.text.languages import find_language
from myxtts.text.sentences import ABBREVIATIONS, SentenceRules, shorter_parts


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
        (
            'He cried "Stop!" and left. "Go on." They went.',
            ['He cried "Stop!" and left.', '"Go on."', "They went."],
        ),
        ("1. Buy milk.\n2. Sell it.", ["1. Buy milk.", "2. Sell it."]),
        ("At 5 p.m. He came. At 5 p.m. sharp.", ["At 5 p.m.", "He came.", "At 5 p.m. sharp."]),
        ("«کجا بودی؟» «در خانه.» رفتند.", ["«کجا بودی؟»", "«در خانه.»", "رفتند."]),
        (
            "نگاه کنید به ص. ۱۲ کتاب. دکتر م. احمدی آمد.",
            ["نگاه کنید به ص. ۱۲ کتاب.", "دکتر م. احمدی آمد."],
        ),
        ("بهای آن ۳.۵ تومان است. خوب.", ["بهای آن ۳.۵ تومان است.", "خوب."]),
        ("  ", []),
    ],
)
@pytest.mark.parametrize("language", ["en", "fa", "de"])
def test_sentences(text, language, sentences):
    assert find_language(language).sentences.split(text) == sentences


@pytest.mark.parametrize(
    "text",
    [
        "Sen. Warren met Gov. Brown and Ph.D. students. | Fine.",
        "J.K. Rowling came from the U.S. Army. | He is from the U.S. | She is not.",
        "In 44 B.C. Caesar died. | A.D. 300 was better. | It rained in Washington D.C. today.",
        "See No. 7. | No. | I will not.",
        "On Mon. Feb. 3 we sat. | 3 others stood.",
        "He was born on Jan. 5, 2020. | It was 5 ft. 10 in. tall. | OK.",
        "Take vitamin C. | It helps. | It is 20.5 °C. | Good.",
        "J. A. Smith lives on Main St. in town. | I live on Main St. | The house is big.",
        "The Dept. of State is on 5th Ave. now. | I live on 5th Ave. | You know.",
        "Is it (really?) true? | (Yes, it is.) | Good.",
        "He wrote \"[She said 'No!'] (quietly.)\" | Then nothing.",
    ],
)
def test_english_dots_that_end_no_sentence(text):
    assert find_language("en").sentences.split(text.replace("| ", "")) == text.split(" | ")


@pytest.mark.parametrize(
    "text",
    [
        "در سال ۳۳۰ ق.م. اسکندر آمد. | ساعت ۵ ب.ظ. رفت.",
        "ر.ک. صفحه ۵. | نگاه کنید به صص. ۱۲ تا ۱۵. | پایان.",
        "گفت: «برو!» و رفت. | «چرا؟» پرسید علی. | «خانه.» | او ماند.",
        "گفت: «او پرسید: ‹چرا؟›» و خندید. | بله.",
        "آیا (واقعاً؟) درست است؟ | (بله.) | خوب.",
        "بهایش ۱۲٬۵۰۰٫۷۵ تومان است؛ | گران است! | نه؟",
    ],
)
def test_persian_dots_and_quotations_that_end_no_sentence(text):
    assert find_language("fa").sentences.split(text.replace("| ", "")) == text.split(" | ")


def test_a_language_may_have_marks_and_abbreviations_of_its_own():
    rules = SentenceRules(terminators=".।", abbreviations=(*ABBREVIATIONS, "z.B"))
    assert rules.split("यह है। वह है।") == ["यह है।", "वह है।"]
    assert rules.split("Vieles, z.B. das. Dr. No!") == ["Vieles, z.B. das.", "Dr. No!"]


def test_the_persian_semicolon_ends_a_clause():
    assert find_language("fa").sentences.split("او آمد؛ سپس رفت.") == ["او آمد؛", "سپس رفت."]
    assert find_language("en").sentences.split("He came; then left.") == ["He came; then left."]


def test_lines_that_were_only_wrapped_are_joined():
    text = (
        "It was the best of times, it was the worst of times, it was the age of\n"
        "wisdom. It was the epoch of belief.\nA title\n\nThe end"
    )
    pieces = find_language("en").sentences.split_with_breaks(text)
    assert [piece.text for piece in pieces] == [
        "It was the best of times, it was the worst of times, it was the age of wisdom.",
        "It was the epoch of belief.",
        "A title",
        "The end",
    ]
    assert [piece.break_after for piece in pieces] == [" ", "\n", "\n\n", ""]


def test_long_sentences_are_cut_after_clauses_or_words():
    assert shorter_parts("Short.", 20) == ["Short."]
    assert shorter_parts("One two three four, five six seven.", 22) == [
        "One two three four,",
        "five six seven.",
    ]
    assert shorter_parts("one two three four five", 12) == ["one two", "three four", "five"]
    assert shorter_parts("one two [[t ə m eɪ t oʊ]] six", 16) == [
        "one two",
        "[[t ə m eɪ t oʊ]]",
        "six",
    ]
    assert shorter_parts("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]
