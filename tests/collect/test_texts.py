"""Clips whose text may be wrong are put aside, and a script replaces transcripts."""

import pytest

pytest.importorskip("rapidfuzz", reason="needs the extra collect")

from myxtts.collect.collect import Clip, check_texts, take_texts_from
from myxtts.collect.folder import DROPPED, KEPT, REVIEW
from myxtts.collect.texts import Script, find_in_script

SENTENCES = [
    "The old boat was painted green.",
    "Seven people waited at the station.",
    "She gave him a basket of apples.",
    "Nobody had heard the second bell.",
    "The road turns left behind the mill.",
    "A cold wind came down the valley.",
    "He read the letter twice and smiled.",
    "They never spoke about the accident.",
    "Rain fell on the roof until morning.",
]


def clip(number, text, seconds=2.2):
    return Clip(str(number), "talk.wav", 0.0, seconds + 0.3, seconds, "speaker", "en", text)


def judged(odd, language="en"):
    clips = [clip(number, text) for number, text in enumerate(SENTENCES)]
    check_texts([*clips, odd], language)
    assert {one.status for one in clips} == {KEPT}
    return odd


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (clip("odd", "The old boat was painted green.", seconds=9.0), "text and duration disagree"),
        (clip("odd", "The old boat was painted green.", seconds=0.9), "text and duration disagree"),
        (clip("odd", ""), "no words recognized"),
        (clip("odd", "..."), "no words recognized"),
        (clip("odd", "you you you you you"), "words repeated"),
        (clip("odd", "سلام به همه"), "text in another script"),
    ],
)
def test_a_doubt_puts_a_clip_aside(odd, reason):
    assert judged(odd).status == REVIEW
    assert odd.reason == reason


def read_from_script(clips):
    for start, one in enumerate(clips):
        one.start_seconds = 3.0 * start
    take_texts_from(Script.read(" ".join(SENTENCES), "en"), clips, "en")
    return [(one.status, one.reason) for one in clips]


def test_clips_of_another_voice_tell_where_their_neighbors_begin_and_end():
    clips = [clip(number, text.lower().rstrip(".")) for number, text in enumerate(SENTENCES)]
    other = clips[4]
    without = [one for one in clips if one is not other]
    uncertain = (REVIEW, "first or last word uncertain")
    assert read_from_script([clip(one.id, one.text) for one in without])[3:5] == [uncertain] * 2
    other.put(DROPPED, "another voice")
    found = read_from_script(clips)
    assert found.pop(4) == (DROPPED, "another voice")
    assert found == [(KEPT, "")] * 8
    assert [one.text for one in without] == [*SENTENCES[:4], *SENTENCES[5:]]


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


def test_the_script_wins_over_the_transcript(script):
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


def test_neighbors_without_a_gap_have_certain_edges(script):
    places = places_of(script, "they drank shook their heads", "and spoke of the harvest instead")
    assert [place.certain_edges for place in places] == [True, True]


def test_what_is_not_in_the_script_is_not_found(script):
    assert find_in_script([[], []], script) == [None, None]
    places = places_of(
        script,
        "the mill by the river had stood empty",
        "ladies and gentlemen please welcome our sponsor",
        "for eleven years nobody in the village",
    )
    assert places[0].agreement == places[2].agreement == 1
    assert places[1] is None or places[1].agreement < 0.3


def test_a_long_script_is_aligned():
    letters = [f"q{a}{b}{c}" for a in "aeiou" for b in "bdfgklmnprstvz" for c in "aeioubdfgklmnp"]
    phrases = [f"{word} and then" for word in letters]
    script = Script.read(" ".join(phrases), "en")
    heard = [" ".join(phrases[at : at + 4]).split() for at in range(0, len(phrases), 4)]
    del heard[20][0], heard[30][5]
    places = find_in_script(heard, script)
    assert [place.agreement == 1 for place in places].count(False) == 1
    assert places[30].text == " ".join(phrases[120:124])
    # The first word of clip 20 was not recognized, so it may belong to the previous clip.
    assert [at for at, place in enumerate(places) if not place.certain_edges] == [19, 20]
