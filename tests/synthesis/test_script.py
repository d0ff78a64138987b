"""From a text to lines: pauses, languages, pronunciations, lengths."""

import pytest

from myxtts.errors import DataError
from myxtts.synthesis.script import ScriptWriter
from myxtts.text.markup import Lexicon
from myxtts.text.tokenizer import Tokenizer, text_symbols

ENGLISH = "The quick brown fox jumps over a lazy dog, by the pool; who? yes! now: thought win."
PERSIAN = "سلام دوست من، صبح بخیر! حال شما چطور است؟ خوبم."


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    symbols = [
        *text_symbols(ENGLISH, "en", "phonemes"),
        *text_symbols(PERSIAN, "fa", "phonemes"),
    ]
    return Tokenizer.learn("phonemes", symbols, ["en", "fa"])


@pytest.fixture(scope="module")
def writer(tokenizer) -> ScriptWriter:
    return ScriptWriter(tokenizer, 60)


def spoken(writer, text, language="en", **how):
    return [(line.text, line.pause_seconds) for line in writer.lines(text, language, **how)]


def test_pauses_follow_marks_lines_and_paragraphs(writer):
    text = "The fox. A dog… The pool?\nA line\n\nA paragraph."
    assert spoken(writer, text) == [
        ("The fox.", 0.25),
        ("A dog…", 0.4),
        ("The pool?", 0.35),
        ("A line", 0.7),
        ("A paragraph.", 0.0),
    ]
    assert spoken(writer, "سلام؛ صبح بخیر.", "fa") == [("سلام؛", 0.15), ("صبح بخیر.", 0.0)]


def test_pauses_by_hand_win_also_at_both_ends(writer):
    assert spoken(writer, "[pause 1] The fox. [pause 2] A [pause 0.5] dog. [pause 3]") == [
        ("", 1.0),
        ("The fox.", 2.0),
        ("A", 0.5),
        ("dog.", 3.0),
    ]


def test_what_cannot_be_said_is_skipped_unless_it_is_all(writer):
    assert spoken(writer, "The fox.\n-----\nA dog.") == [("The fox.", 0.35), ("A dog.", 0.0)]
    for text in ("", "...", "[pause 1]", "漢字"):
        with pytest.raises(DataError, match="nothing to say"):
            writer.lines(text, "en")


def test_each_part_is_said_in_its_language(writer, tokenizer):
    [line] = writer.lines("سلام دوست من the fox، صبح بخیر.", "fa")
    assert tokenizer.languages[line.language_id] == "fa"
    english = [tokenizer.symbols.index(s) for s in text_symbols("the fox", "en", "phonemes")]
    joined = ",".join(map(str, line.token_ids))
    assert ",".join(map(str, english)) in joined


def test_a_sentence_in_another_language_is_said_in_that(writer, tokenizer):
    lines = writer.lines("The fox. سلام دوست من! A dog.", "en")
    assert [tokenizer.languages[line.language_id] for line in lines] == ["en", "fa", "en"]


def test_a_pronunciation_by_hand_and_by_lexicon(writer, tokenizer):
    expected = tokenizer.encode("the fox", "en")
    symbols = "".join(text_symbols("fox", "en", "phonemes"))
    [by_hand] = writer.lines(f"the [[{symbols}]]", "en")
    assert by_hand.token_ids == expected
    lexicon = Lexicon({"Vulpes": f"[[{symbols}]]"})
    [by_lexicon] = writer.lines("the Vulpes", "en", lexicon=lexicon)
    assert by_lexicon.token_ids == expected
    assert by_lexicon.text == "the Vulpes"


def test_pronunciations_that_cannot_be_said(writer, tokenizer):
    with pytest.raises(DataError, match=r"\[\[ʘ\]\]: this model does not know ʘ"):
        writer.lines("the [[ʘ]] fox", "en")
    letters = ScriptWriter(Tokenizer.learn("graphemes", "abcdefx ", ["en"]), 60)
    with pytest.raises(DataError, match=r"\[\[fɑks\]\]"):
        letters.lines("a [[fɑks]]", "en")


def test_a_sentence_that_is_too_long_is_said_in_parts(writer):
    text = "The quick fox jumps over a lazy dog by the pool, and " * 4 + "yes."
    lines = writer.lines(text, "en")
    assert len(lines) > 3
    assert max(len(line.text) for line in lines) <= 60
    assert {line.pause_seconds for line in lines[:-1]} == {0.1}
    assert " ".join(line.text for line in lines) == text
    [whole] = writer.lines(text, "en", split=False)
    assert whole.text == text


def test_limits(writer):
    with pytest.raises(DataError, match="expected at most 1000000"):
        writer.lines("a" * 1_000_001, "en")
    with pytest.raises(DataError, match="expected at most 2000"):
        writer.lines("the fox " * 600, "en", split=False)


def test_ssml_sets_language_speed_and_pauses(writer):
    lines = writer.lines(
        '<speak>The fox. <break time="1s"/> <prosody rate="slow">A dog.</prosody> '
        '<lang xml:lang="fa">سلام دوست من.</lang></speak>',
        "en",
    )
    assert [(it.text, it.pause_seconds, it.speed) for it in lines] == [
        ("The fox.", 1.0, 1.0),
        ("A dog.", 0.0, 0.75),
        ("سلام دوست من.", 0.0, 1.0),
    ]
    assert lines[2].language_id != lines[0].language_id
