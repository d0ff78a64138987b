import pytest

from myxtts.errors import DataError
from myxtts.text.markup import (
    Lexicon,
    split_at_pauses,
    split_at_pronunciations,
    without_pronunciations,
)


def test_pauses_by_hand():
    assert list(split_at_pauses("One [pause 0.5] two[PAUSE 250 ms].")) == [
        ("One ", 0.5),
        (" two", 0.25),
        (".", None),
    ]
    for half_a_second in ("[pause 0,5]", "[pause ۰٫۵]", "[pause 500ms]"):
        assert next(split_at_pauses(f"One {half_a_second} two.")) == ("One ", 0.5)
    assert list(split_at_pauses("No [paused] pause.")) == [("No [paused] pause.", None)]


@pytest.mark.parametrize(
    "mark", ["[pause]", "[pause x]", "[pause -1]", "[pause 61]", "[pause 1 h]"]
)
def test_a_pause_that_is_none(mark):
    with pytest.raises(DataError):
        list(split_at_pauses(f"Wait {mark} here."))


def test_pronunciations_by_hand():
    text = "Say [[təmˈeɪɾoʊ]] or [[ təmˈɑːtəʊ ]]."
    assert list(split_at_pronunciations(text)) == [
        ("Say ", False),
        ("təmˈeɪɾoʊ", True),
        (" or ", False),
        (" təmˈɑːtəʊ ", True),
        (".", False),
    ]
    assert without_pronunciations("Say [[təmˈeɪɾoʊ]] [1].") == "Say təmˈeɪɾoʊ [1]."


def lexicon_of(tmp_path, content: str) -> Lexicon:
    file = tmp_path / "words.tsv"
    file.write_text(content, encoding="utf-8")
    return Lexicon.read(file)


def test_words_are_replaced_by_how_they_are_said(tmp_path):
    lexicon = lexicon_of(
        tmp_path, "# mine\nNguyen\t/wˈɪn/\n\nsql|sequel\nSQL server\tthe server\nتهران\tطهران\n"
    )
    assert lexicon.apply("Nguyen knows SQL and sql.") == "[[wˈɪn]] knows sequel and sequel."
    assert lexicon.apply("An SQL server, MySQL, nguyen") == "An the server, MySQL, nguyen"
    assert lexicon.apply("شهر تهران.") == "شهر طهران."


def test_a_pronunciation_in_the_text_goes_before_the_file(tmp_path):
    lexicon = lexicon_of(tmp_path, "a\t/ˈeɪ/\ntu\tyou\n")
    assert lexicon.apply("Say [[tu]], a tu.") == "Say [[tu]], [[ˈeɪ]] you."


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("Nguyen", "line 1"),
        ("# ok\nA\tb\tc", "line 2"),
        ("\tsaid", "line 1"),
        ("# nothing\n", "words.tsv"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, content, line):
    with pytest.raises(DataError) as error:
        lexicon_of(tmp_path, content)
    assert line in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00w")
    for file in ("none", "binary", "."):
        with pytest.raises(DataError):
            Lexicon.read(tmp_path / file)
