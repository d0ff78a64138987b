"""Clips get their texts from the script, wherever they are in it."""

import pytest

pytest.importorskip("rapidfuzz", reason="needs the extra collect")

from myxtts.collect.texts import Script, find_in_script

BOOK = """Chapter 1. The mill by the river had stood empty for eleven years. Nobody in the village
could say who owned it -- or why its wheel still turned on windless nights. "You will see," said
the miller's daughter, "that it is only the water." But the water had been gone since 1890, and the
old men in the tavern knew it. They drank, shook their heads, and spoke of the harvest instead."""


@pytest.fixture
def script():
    return Script.read(BOOK, "en")


def places_of(script, *heard):
    return find_in_script([words.split() for words in heard], script)


def texts(script, *heard):
    return [place and place.text for place in places_of(script, *heard)]


def test_the_script_wins_over_what_was_heard(script):
    assert texts(
        script,
        "the mill by the river had stood empty for seven years",
        "nobody in the village could say who owned it",
        "or why its weal still turned on windless nights",
    ) == [
        "The mill by the river had stood empty for eleven years.",
        "Nobody in the village could say who owned it --",
        "or why its wheel still turned on windless nights.",
    ]


def test_numbers_are_as_they_are_written(script):
    heard = (
        "but the water had been gone since eighteen ninety and the old men in the tavern knew it"
    )
    assert texts(script, heard) == [
        "But the water had been gone since 1890, and the old men in the tavern knew it."
    ]


def test_what_was_skipped_is_in_no_clip(script):
    first, second = "had stood empty for eleven years", "spoke of the harvest instead"
    assert texts(script, first, second) == [
        "had stood empty for eleven years.",
        "spoke of the harvest instead.",
    ]
    places = places_of(script, first, second)
    assert not any(place.certain_edges for place in places)


def test_neighbours_without_a_gap_have_certain_edges(script):
    places = places_of(script, "they drank shook their heads", "and spoke of the harvest instead")
    assert [place.certain_edges for place in places] == [True, True]


def test_what_is_not_in_the_script_is_not_found(script):
    places = places_of(
        script,
        "the mill by the river had stood empty",
        "ladies and gentlemen please welcome our sponsor",
        "for eleven years nobody in the village",
    )
    assert places[0].agreement == places[2].agreement == 1
    assert places[1] is None or places[1].agreement < 0.3


def test_nothing_was_heard(script):
    assert find_in_script([[], []], script) == [None, None]


def test_a_long_script_is_aligned():
    letters = [f"q{a}{b}{c}" for a in "aeiou" for b in "bdfgklmnprstvz" for c in "aeioubdfgklmnp"]
    phrases = [f"{word} and then" for word in letters]
    script = Script.read(" ".join(phrases), "en")
    heard = [" ".join(phrases[at : at + 4]).split() for at in range(0, len(phrases), 4)]
    del heard[20][0], heard[30][5]
    places = find_in_script(heard, script)
    assert [place.agreement == 1 for place in places].count(False) == 1
    assert places[30].text == " ".join(phrases[120:124])
    # The first word of clip 20 was not heard, so it may belong to the clip before.
    assert [at for at, place in enumerate(places) if not place.certain_edges] == [19, 20]
