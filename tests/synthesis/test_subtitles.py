"""Times of words from the durations of tokens, and the files they are written to."""

import json

import numpy as np
import pytest

from myxtts.errors import DataError
from myxtts.synthesis.script import Line, ScriptWriter, SpokenLine
from myxtts.synthesis.subtitles import TimedLine, TimedWord, timed_line, write_subtitles
from myxtts.text.markup import Lexicon
from myxtts.text.tokenizer import Tokenizer, text_symbols

TEXT = "In the end, Dr. Fox paid 12 dollars for سلام."


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    symbols = [*text_symbols(TEXT, "en", "phonemes"), *text_symbols("سلام.", "fa", "phonemes")]
    return Tokenizer.learn("phonemes", symbols, ["en", "fa"])


def spoken(line: Line) -> SpokenLine:
    """Return a tenth of a second for each token."""
    return SpokenLine(line, np.zeros(0, np.float32), np.full(len(line.token_ids), 0.1))


def test_words_have_the_times_of_their_own_tokens(tokenizer):
    [line] = ScriptWriter(tokenizer, 100).lines(TEXT, "en")
    timed = timed_line(spoken(line), tokenizer, offset_seconds=5.0)
    assert [word.text for word in timed.words] == TEXT.split()
    symbols = [tokenizer.symbols[token] for token in line.token_ids]
    times = [(word.start_seconds, word.end_seconds) for word in timed.words]
    assert times == sorted(times)
    for word, (start, end) in zip(timed.words, times, strict=True):
        language = "fa" if "س" in word.text else "en"
        own = {s.lstrip("ˈˌ") for s in text_symbols(word.text, language, "phonemes")}
        said = [s.lstrip("ˈˌ") for s in symbols[round(start * 10) - 50 : round(end * 10) - 50]]
        shared = sum(symbol in own for symbol in said)
        assert shared >= 0.5 * len(said), (word, said, own)
        assert said, word
    assert timed.start_seconds == pytest.approx(5.1)
    assert timed.end_seconds <= 5 + 0.1 * len(symbols)


def test_a_word_that_is_said_in_another_way_still_has_a_time(tokenizer):
    lexicon = Lexicon({"Bnr": "dollars"})
    [line] = ScriptWriter(tokenizer, 100).lines("Fox paid Bnr in the end.", "en", lexicon=lexicon)
    words = timed_line(spoken(line), tokenizer, 0.0).words
    assert [word.text for word in words] == ["Fox", "paid", "Bnr", "in", "the", "end."]
    assert words[2].end_seconds - words[2].start_seconds >= 0.3


LINES = [
    TimedLine("Hi & bye.", 0.25, 1.5, [TimedWord("Hi", 0.25, 0.5), TimedWord("& bye.", 1.0, 1.5)]),
    TimedLine("سلام.", 3_661.0, 3_661.5, [TimedWord("سلام.", 3_661.0, 3_661.5)]),
]


def test_the_three_formats(tmp_path):
    for ending in ("srt", "vtt", "json"):
        write_subtitles(tmp_path / f"out.{ending}", LINES)
    srt, vtt = ((tmp_path / f"out.{e}").read_text(encoding="utf-8") for e in ("srt", "vtt"))
    assert srt == (
        "1\n00:00:00,250 --> 00:00:01,500\nHi & bye.\n\n2\n01:01:01,000 --> 01:01:01,500\nسلام.\n"
    )
    assert vtt.startswith("WEBVTT\n\n00:00:00.250 --> 00:00:01.500\n")
    assert "Hi <00:00:01.000>&amp; bye." in vtt
    content = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert content["sentences"][0]["words"][0] == {"word": "Hi", "start": 0.25, "end": 0.5}


@pytest.mark.parametrize("name", ["out.sub", "none/out.srt", "out.srt"])
def test_files_that_cannot_be_written(tmp_path, name):
    (tmp_path / "out.srt").mkdir()
    with pytest.raises(DataError, match="cannot be written"):
        write_subtitles(tmp_path / name, LINES)
