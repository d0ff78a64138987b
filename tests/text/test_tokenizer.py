import pytest

from myxtts.errors import CheckpointError, DataError
from myxtts.text.tokenizer import EDGE_ID, PADDING_ID, Tokenizer, text_symbols


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.learn("graphemes", "abc .", ["en"])


def test_edges_surround_the_text(tokenizer):
    ids = tokenizer.encode("cab", "en")
    assert ids[0] == ids[-1] == EDGE_ID
    assert [tokenizer.symbols[token_id] for token_id in ids[1:-1]] == ["c", "a", "b"]
    assert PADDING_ID not in ids


def test_growing_keeps_old_ids(tokenizer):
    grown = tokenizer.grown("xaz", ["fa", "en"])
    assert grown.symbols[: len(tokenizer.symbols)] == tokenizer.symbols
    assert grown.symbols[len(tokenizer.symbols) :] == ("x", "z")
    assert grown.languages == ("en", "fa")
    assert grown.encode("cab", "en") == tokenizer.encode("cab", "en")


def test_unknown_symbols_are_left_out_and_can_be_asked_for(tokenizer):
    assert tokenizer.encode("cqab", "en") == tokenizer.encode("cab", "en")
    assert tokenizer.unknown("cqab") == ["q"]


@pytest.mark.parametrize("text", ["", "   ", "...", "qqq", "?!"])
def test_nothing_to_say(tokenizer, text):
    with pytest.raises(DataError, match="nothing to say"):
        tokenizer.encode(text, "en")


def test_languages_by_id(tokenizer):
    assert tokenizer.language_id("en") == 0
    with pytest.raises(DataError, match="language 'de' is not one of this model's: en"):
        tokenizer.language_id("de")


def test_saved_as_json_and_loaded(tmp_path, tokenizer):
    grown = tokenizer.grown(["ˈɛ", "آ"], ["fa"])
    grown.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json") == grown


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"format": "other"}', '{"format": 1}'])
def test_other_files_are_refused(tmp_path, content):
    file = tmp_path / "tokenizer.json"
    file.write_text(content)
    with pytest.raises(CheckpointError, match="not a tokenizer"):
        Tokenizer.load(file)


def test_phonemes_or_graphemes_by_configuration():
    assert "ð" in text_symbols("the", "en", "phonemes")
    assert text_symbols("The", "en", "graphemes") == ("t", "h", "e")


def test_letters_have_one_spelling_with_and_without_vowel_signs():
    plain = text_symbols("کتاب من", "fa", "graphemes")
    assert text_symbols("کِتابِ مَن", "fa", "graphemes") == plain
