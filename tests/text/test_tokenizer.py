import json

import pytest

from myxtts.errors import CheckpointError, DataError
from myxtts.text.tokenizer import (
    EDGE_ID,
    PADDING_ID,
    TEXT_RULES,
    Tokenizer,
    describe_left_out,
    left_out_symbols,
    text_symbols,
)


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
    with pytest.raises(DataError):
        tokenizer.encode(text, "en")


def test_texts_without_a_language_have_the_default_or_else_the_first():
    tokenizer = Tokenizer.learn("graphemes", "abc .", ["de", "en", "fa"])
    assert tokenizer.language_or_default(None, "en") == "en"
    assert tokenizer.language_or_default(None, "nl") == "de"
    assert tokenizer.language_or_default("fa-IR", "en") == "fa"


def test_languages_by_id(tokenizer):
    assert tokenizer.language_id("en") == 0
    with pytest.raises(DataError, match="'de'"):
        tokenizer.language_id("de")


@pytest.mark.parametrize("tag", ["en", "EN", "en_US", "en-us"])
def test_any_spelling_of_a_tag_finds_its_language(tag):
    both = Tokenizer.learn("phonemes", "a", ["en", "fa"])
    assert (both.own_language(tag), both.language_id(tag)) == ("en", 0)
    assert both.own_language("fa_IR") == "fa"


def test_saved_as_json_and_loaded(tmp_path, tokenizer):
    grown = tokenizer.grown(["ˈɛ", "آ"], ["fa"])
    grown.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json") == grown


def test_a_run_keeps_the_text_rules_that_it_was_trained_with(tmp_path):
    symbols = [*"ketɑbxumnq1", " "]
    new = Tokenizer.learn("phonemes", symbols, ["fa"], ezafe=False)
    new.save(tmp_path / "new.json")
    content = json.loads((tmp_path / "new.json").read_text(encoding="utf-8"))
    assert (content.pop("ezafe"), content.pop("rules")) == (False, TEXT_RULES)
    (tmp_path / "old.json").write_text(json.dumps(content), encoding="utf-8")
    assert Tokenizer.load(tmp_path / "new.json").symbols_of("ق", "fa")[0] == "q"
    old = Tokenizer.load(tmp_path / "old.json")
    assert (old.ezafe, old.rules) == (False, 2)
    assert "1" in old.symbols_of("قهوه", "fa")
    assert old.with_ids_of(new) == old


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"format": "other"}', '{"format": 1}'])
def test_other_files_are_refused(tmp_path, content):
    file = tmp_path / "tokenizer.json"
    file.write_text(content)
    with pytest.raises(CheckpointError):
        Tokenizer.load(file)


def test_phonemes_or_graphemes_by_configuration():
    assert "ð" in text_symbols("the", "en", "phonemes")
    assert text_symbols("The", "en", "graphemes") == ("t", "h", "e")


def test_letters_have_one_spelling_with_and_without_vowel_signs():
    plain = text_symbols("کتاب من", "fa", "graphemes")
    assert text_symbols("کِتابِ مَن", "fa", "graphemes") == plain


def test_emoji_and_stars_are_counted_and_spoken_signs_are_not():
    found = left_out_symbols("Hello 😀😀 world ★ for 5 € + 3 %", "en")
    assert found == {"😀": 2, "★": 1}
    assert "3" in describe_left_out(found)
    assert left_out_symbols("سلام 😀 دنیا؟", "fa") == {"😀": 1}
