import pytest

from myxtts.errors import DataError
from myxtts.text.markup import split_at_pauses, split_at_pronunciations, without_pronunciations


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
    with pytest.raises(DataError, match=r"expected seconds from 0 to 60, such as \[pause 0.5\]"):
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
