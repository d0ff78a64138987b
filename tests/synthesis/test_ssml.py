"""SSML: what of it changes speech, and what is only warned of."""

import logging

import pytest

from myxtts.errors import DataError
from myxtts.synthesis.ssml import is_ssml, read_ssml


def spans(content):
    return read_ssml(f"<speak>{content}</speak>")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Hello\n  there.", "Hello there."),
        ('One<break time="500ms"/>two', "One [pause 0.5] two"),
        ('One<break strength="weak"/>two', "One [pause 0.2] two"),
        ('a <phoneme alphabet="ipa" ph="təˈmɑːtoʊ">tomato</phoneme>!', "a [[təˈmɑːtoʊ]] !"),
        ('<sub alias="World Wide Web">WWW</sub>.', "World Wide Web."),
        ('<say-as interpret-as="characters">ab1</say-as>', "A B 1"),
        ('<say-as interpret-as="telephone">+1 555-010</say-as>', "+ 1, 5 5 5, 0 1 0"),
        ('<say-as interpret-as="date" format="mdy">5/3/2024</say-as>', "2024-05-03"),
        ('<say-as interpret-as="date" format="dmy">5.3.2024</say-as>', "2024-03-05"),
        ("<p>One.</p><p>Two.</p>", "One.\n\nTwo.\n\n"),
    ],
)
def test_tags_that_become_text(content, text):
    (span,) = spans(content)
    assert (span.text.strip(), span.language, span.speed) == (text.strip(), None, 1.0)


def test_spans_have_a_language_and_a_speed():
    content = 'Hi <lang xml:lang="fa">سلام</lang> <prosody rate="slow">slow <prosody rate="200%">'
    content += "fast</prosody></prosody>."
    assert [(it.text.strip(), it.language, it.speed) for it in spans(content)] == [
        ("Hi", None, 1.0),
        ("سلام", "fa", 1.0),
        ("slow", None, 0.75),
        ("fast", None, 1.5),
        (".", None, 1.0),
    ]


def test_other_tags_are_named_and_their_text_is_spoken(caplog):
    with caplog.at_level(logging.WARNING):
        (span,) = spans('<emphasis>Very</emphasis> <mark name="x"/>good')
    assert span.text == "Very good"
    assert "emphasis, mark" in caplog.text


@pytest.mark.parametrize(
    "content",
    [
        "<break",
        '<break time="soon"/>',
        '<break time="1000s"/>',
        '<prosody rate="0%">x</prosody>',
        "<sub>x</sub>",
        '<phoneme alphabet="x-sampa" ph="a">a</phoneme>',
        "<!-- fine --><!ENTITY x 'y'>",
    ],
)
def test_what_cannot_be_read_is_an_error(content):
    with pytest.raises(DataError):
        spans(content)


def test_only_speak_begins_ssml():
    assert is_ssml('<?xml version="1.0"?>\n<speak>x</speak>')
    assert is_ssml(' <speak version="1.0">x</speak>')
    assert not is_ssml("<speaker> says x")
