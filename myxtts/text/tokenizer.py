"""Text to symbols and token ids, with a vocabulary built from the corpus and saved as JSON.

A phoneme symbol is a base character with its modifiers: the stress mark before a vowel and the
length mark or diacritic after it. Each symbol is then a sound of at least one frame, unlike a
stress mark alone.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from myxtts.errors import CheckpointError, DataError, plural_count, quoted
from myxtts.files import read_json, write_file
from myxtts.text import espeak
from myxtts.text.general import LATIN, script_of
from myxtts.text.languages import find_language, nearest_tag, normalize

_PUNCTUATION = re.compile(r"([.,;:?!،؛؟…])")
_PERSIAN_TO_LATIN = str.maketrans("،؛؟", ",;?")
# Increase when the symbols of a text change, so that features are prepared again.
TEXT_RULES = 5
STRESS_MARKS = "ˈˌ"
# espeak-ng returns "(en)word(fa)" for a word in another language.
_LANGUAGE_SWITCH = re.compile(r"\([a-z-]+\)")
PADDING_ID = 0
EDGE_ID = 1
# Padding fills up a batch; the edge token is the silence before and after the words.
PADDING_SYMBOL = "<padding>"
EDGE_SYMBOL = "<edge>"
EDGE_TOKENS = 2
_SPECIAL_SYMBOLS = (PADDING_SYMBOL, EDGE_SYMBOL)
_FORMAT = "myxtts-tokenizer-1"
# Version of files that do not state one.
_FIRST_RULES = 2
_KINDS = ("phonemes", "graphemes")


def is_spoken(symbol: str) -> bool:
    """Return whether a symbol is neither a space nor punctuation."""
    return any(character.isalnum() for character in symbol)


def text_symbols(
    text: str, language: str, kind: str, *, ezafe: bool = True, rules: int = TEXT_RULES
) -> tuple[str, ...]:
    """Return the symbols of a text; `kind` is text.tokens of the configuration.

    Characters that cannot be pronounced are left out: espeak-ng would read their names.
    """
    words = normalize(text, language, keep_vowel_signs=kind == "phonemes")
    for character in unsayable(words, language, kind):
        words = words.replace(character, " ")
    if kind == "phonemes":
        return phoneme_symbols(words, language, ezafe=ezafe, rules=rules)
    return tuple(" ".join(words.lower().split()))


@functools.lru_cache(maxsize=4_096)
def phoneme_symbols(
    text: str, language: str, *, ezafe: bool = True, rules: int = TEXT_RULES
) -> tuple[str, ...]:
    """Return the symbols of a normalized text: phonemes, ' ' between words, punctuation marks.

    `ezafe` is text.ezafe of the configuration, `rules` the version that a run was trained with.
    """
    entry = find_language(language)
    symbols: list[str] = []
    for part in _PUNCTUATION.split(text):
        if _PUNCTUATION.fullmatch(part):
            symbols.append(part.translate(_PERSIAN_TO_LATIN))
        elif part.strip():
            if entry.phonemes is not None:
                said = entry.phonemes(part, ezafe, rules)
            else:
                said = espeak.phonemes(part, entry.espeak_voice)
            spoken = _LANGUAGE_SWITCH.sub("", said)
            if symbols and spoken:
                symbols.append(" ")
            symbols.extend(split_symbols(spoken))
    return tuple(symbols)


def split_symbols(phonemes: str) -> list[str]:
    """Split phonemes: 'mˈɛʒɚː' -> ['m', 'ˈɛ', 'ʒ', 'ɚː']."""
    symbols: list[str] = []
    stress = ""
    for character in phonemes:
        if character in STRESS_MARKS:
            stress = character
        elif character.isspace():
            symbols.append(" ")
        elif symbols and symbols[-1] != " " and is_modifier(character):
            symbols[-1] += character
        else:
            symbols.append(stress + character)
            stress = ""
    return symbols


def is_modifier(character: str) -> bool:
    """Return whether a character modifies the previous one: a length mark or a diacritic."""
    return unicodedata.category(character) in ("Lm", "Mn", "Sk")


def _names(values: list[str]) -> tuple[str, ...]:
    """Check that a list from a file has no duplicates."""
    if len(set(values)) != len(values):
        raise ValueError("a duplicate in a list")
    return tuple(values)


@dataclass(frozen=True)
class Tokenizer:
    """Symbols and languages by id. Ids never change: a vocabulary is only extended at its end."""

    kind: str
    symbols: tuple[str, ...]
    languages: tuple[str, ...]
    ezafe: bool = True
    """text.ezafe of the configuration that the run was trained with."""
    rules: int = TEXT_RULES
    """Version of the text rules that the run was trained with."""

    @classmethod
    def learn(
        cls, kind: str, symbols: Iterable[str], languages: Iterable[str], *, ezafe: bool = True
    ) -> Tokenizer:
        return cls(kind, _SPECIAL_SYMBOLS, (), ezafe).grown(symbols, languages)

    def grown(self, symbols: Iterable[str], languages: Iterable[str]) -> Tokenizer:
        """Append new items in sorted order, so that existing ids stay the same."""
        new_symbols = sorted(set(symbols) - set(self.symbols))
        new_languages = sorted(set(languages) - set(self.languages))
        return dataclasses.replace(
            self,
            symbols=(*self.symbols, *new_symbols),
            languages=(*self.languages, *new_languages),
        )

    def with_ids_of(self, vocabulary: Tokenizer) -> Tokenizer:
        """Return this tokenizer with the ids of a vocabulary, extended at its end."""
        grown = vocabulary.grown(self.symbols, self.languages)
        return dataclasses.replace(self, symbols=grown.symbols, languages=grown.languages)

    def symbols_of(self, text: str, language: str) -> tuple[str, ...]:
        """Return the symbols of a text by the rules of this run."""
        return text_symbols(text, language, self.kind, ezafe=self.ezafe, rules=self.rules)

    def encode(self, text: str, language: str) -> list[int]:
        """Return token ids with an edge token at both ends, without unknown symbols."""
        return self.encode_symbols(self.symbols_of(text, language), text)

    def encode_symbols(self, symbols: Iterable[str], text: str) -> list[int]:
        """Encode symbols; an error quotes their `text`."""
        known = [symbol for symbol in symbols if symbol in self._symbol_ids]
        if not any(map(is_spoken, known)):
            raise DataError(
                f"nothing to say in {quoted(text)}: the text is empty or has only symbols "
                "that this model was not trained on"
            )
        return [EDGE_ID, *(self._symbol_ids[symbol] for symbol in known), EDGE_ID]

    def unknown(self, symbols: Iterable[str]) -> list[str]:
        """Return symbols that are not in the vocabulary."""
        return sorted(set(symbols) - set(self.symbols))

    def own_language(self, tag: str) -> str:
        """Return the language of this vocabulary that a tag means."""
        for code in (tag, find_language(tag).code):
            if code in self.languages:
                return code
        raise DataError(
            f"language '{tag}' is not one of this model's languages: {', '.join(self.languages)}"
            f"{nearest_tag(tag, self.languages)}"
        )

    def language_or_default(self, tag: str | None, default: str) -> str:
        """Return the language that a tag means; without one the default, or else the first."""
        if tag is not None:
            return self.own_language(tag)
        return default if default in self.languages else self.languages[0]

    def language_id(self, tag: str) -> int:
        return self.languages.index(self.own_language(tag))

    def save(self, file: Path) -> None:
        content = {
            "format": _FORMAT,
            "kind": self.kind,
            "symbols": self.symbols,
            "languages": self.languages,
            "ezafe": self.ezafe,
            "rules": self.rules,
        }
        write_file(file, json.dumps(content, ensure_ascii=False, indent=1))

    @classmethod
    def load(cls, file: Path) -> Tokenizer:
        try:
            content = read_json(file, ("format", "kind", "symbols", "languages"))
            if content["format"] != _FORMAT or content["kind"] not in _KINDS:
                raise ValueError("another format")
            symbols, languages = _names(content["symbols"]), _names(content["languages"])
            if symbols[: len(_SPECIAL_SYMBOLS)] != _SPECIAL_SYMBOLS or not languages:
                raise ValueError("symbols or languages are missing")
            return cls(
                content["kind"],
                symbols,
                languages,
                content.get("ezafe", False),
                content.get("rules", _FIRST_RULES),
            )
        except OSError as error:
            raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None
        except (ValueError, DataError) as error:
            raise CheckpointError(f"{file}: not a tokenizer of MyXTTS ({error})") from None

    @functools.cached_property
    def _symbol_ids(self) -> dict[str, int]:
        return {symbol: index for index, symbol in enumerate(self.symbols)}


def unsayable(words: str, language: str, kind: str) -> list[str]:
    """Return characters of a normalized text that would be silent or read as the name of a letter.

    `kind` is text.tokens of the configuration. Graphemes must be letters of the language's script;
    espeak-ng also reads Latin words, and numbers and signs that it knows.
    """
    return [
        character for character in sorted(set(words)) if not _sayable(character, language, kind)
    ]


@functools.lru_cache(maxsize=16_384)
def _sayable(character: str, language: str, kind: str) -> bool:
    group = unicodedata.category(character)[0]
    if group == "L":
        known = find_language(language).scripts | (LATIN if kind == "phonemes" else frozenset())
        return script_of(character) in known or unicodedata.category(character) == "Lm"
    if group in "NS":
        return kind == "phonemes" and bool(phoneme_symbols(character, language))
    return True


_SHOWN_SYMBOLS = 10


def left_out_symbols(text: str, language: str) -> Counter[str]:
    """Count emoji, arrows, stars and the like that have no words in this language."""
    symbols = Counter(it for it in text if unicodedata.category(it) in ("So", "Sm", "Sc"))
    return Counter({it: count for it, count in symbols.items() if not _is_spoken(it, language)})


def describe_left_out(symbols: Counter[str]) -> str:
    shown = " ".join(symbol for symbol, _ in symbols.most_common(_SHOWN_SYMBOLS))
    more = " ..." if len(symbols) > _SHOWN_SYMBOLS else ""
    return f"{plural_count(symbols.total(), 'symbol')} left out of speech: {shown}{more}"


@functools.lru_cache(maxsize=4_096)
def _is_spoken(symbol: str, language: str) -> bool:
    return normalize(f"1 {symbol} 2", language) != normalize("1 2", language)
