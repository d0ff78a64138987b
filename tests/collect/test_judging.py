"""Clips whose text may be wrong are put aside, with the reason and its figure."""

import pytest

from myxtts.collect.collect import (
    DROPPED,
    KEPT,
    REVIEW,
    Clip,
    judge_agreement,
    judge_texts,
    take_texts_from,
)
from myxtts.collect.texts import Script

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


def clip(number, text, seconds=2.2, second=None):
    return Clip(
        str(number), "talk.wav", 0.0, seconds + 0.3, seconds, {}, "speaker", "en", text, second
    )


def judged(odd, language="en"):
    clips = [clip(number, text) for number, text in enumerate(SENTENCES)]
    judge_texts([*clips, odd], language)
    assert {one.status for one in clips} == {KEPT}
    return odd


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (clip("odd", "The old boat was painted green.", seconds=9.0), "text and duration disagree"),
        (clip("odd", "The old boat was painted green.", seconds=0.9), "text and duration disagree"),
        (clip("odd", ""), "no words recognised"),
        (clip("odd", "..."), "no words recognised"),
        (clip("odd", "you you you you you"), "words repeated"),
        (clip("odd", "سلام به همه"), "text in another script"),
        (clip("odd", SENTENCES[0], second="The old goat was painted green."), "uncertain words"),
    ],
)
def test_a_doubt_puts_a_clip_aside(odd, reason):
    assert judged(odd).status == REVIEW
    assert odd.reason == reason


def test_the_figure_is_told():
    odd = judged(clip("odd", SENTENCES[0], seconds=9.0))
    assert "phonemes per second of speech" in odd.detail


def test_two_hearings_that_agree_are_kept():
    odd = judged(clip("odd", SENTENCES[0], second="the old boat, was painted green"))
    assert odd.status == KEPT


def test_a_text_that_is_hardly_found_in_the_sound_is_put_aside():
    clips = [clip(number, text) for number, text in enumerate(SENTENCES)]
    agreements = {one.id: 0.3 for one in clips} | {clips[2].id: 0.05}
    assert judge_agreement(clips, agreements) == []
    assert [one.id for one in clips if one.status == REVIEW] == [clips[2].id]
    assert clips[2].reason == "text and sound disagree"
    assert "agreement 0.05 by the base model, 0.30 is usual" in clips[2].detail


def test_a_model_that_does_not_follow_the_speech_judges_no_text():
    clips = [clip(number, text) for number, text in enumerate(SENTENCES)]
    [note] = judge_agreement(clips, {one.id: 0.04 for one in clips} | {clips[2].id: -0.1})
    assert "does not follow this speech" in note
    assert {one.status for one in clips} == {KEPT}


def read_from_script(clips):
    for start, one in enumerate(clips):
        one.start_seconds = 3.0 * start
    take_texts_from(Script.read(" ".join(SENTENCES), "en"), clips, "en")
    return [(one.status, one.reason) for one in clips]


def test_clips_of_another_voice_tell_where_their_neighbours_begin_and_end():
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
