import pytest

from myxtts.errors import DataError
from myxtts.text.lexicon import Lexicon


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
        ("Nguyen", "line 1: found 'Nguyen', expected a word, a tab or |"),
        ("# ok\nA\tb\tc", "line 2: found"),
        ("\tsaid", "line 1: found"),
        ("# nothing\n", "has no entries"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, content, line):
    with pytest.raises(DataError) as error:
        lexicon_of(tmp_path, content)
    assert line in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00w")
    for file, line in [("none", "cannot be read"), ("binary", "not UTF-8"), (".", "cannot be")]:
        with pytest.raises(DataError, match=line):
            Lexicon.read(tmp_path / file)
