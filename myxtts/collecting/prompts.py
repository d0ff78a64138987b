"""Sentences to read aloud, in an order that covers the sounds of a language soon.

The sentences are those of the demo corpus, which were written for this project. The first few have
every phoneme; those after them add pairs of phonemes, as many as possible for their length.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from myxtts.errors import DataError
from myxtts.text.languages import REGISTRY, find_language
from myxtts.text.tokenizer import is_spoken, text_symbols

RECORDED = "recorded"
"""How ids of recorded sentences begin."""


@dataclass(frozen=True)
class Prompt:
    id: str
    text: str
    pairs_covered: float
    """Share of all pairs of phonemes that this sentence and those before it have."""


def prompts(language: str) -> list[Prompt]:
    """Every sentence that adds something, the most useful first."""
    sentences = find_language(language).demo_sentences()
    if not sentences:
        raise DataError(
            f"--language: no sentences to read in '{language}', allowed: {', '.join(REGISTRY)}"
        )
    symbols = {text: text_symbols(text, language, "phonemes") for text in sentences}
    chosen = _cover(symbols, _phonemes, [])
    chosen = _cover(symbols, _pairs, chosen)
    every = {pair for found in symbols.values() for pair in _pairs(found)}
    covered: set[Hashable] = set()
    found = []
    for text in chosen:
        covered |= set(_pairs(symbols[text]))
        name = f"{RECORDED}-{language}-{sentences.index(text) + 1:04d}"
        found.append(Prompt(name, text, len(covered) / len(every)))
    return found


def _phonemes(symbols: Sequence[str]) -> set[Hashable]:
    return {symbol for symbol in symbols if is_spoken(symbol)}


def _pairs(symbols: Sequence[str]) -> set[Hashable]:
    """Within words: across them readers may pause."""
    return {pair for pair in itertools.pairwise(symbols) if all(map(is_spoken, pair))}


def _cover(
    symbols: Mapping[str, Sequence[str]],
    units_of: Callable[[Sequence[str]], set[Hashable]],
    chosen: Sequence[str],
) -> list[str]:
    """Adds the sentence with most new units for its length until there are no new ones."""
    units = {text: units_of(found) for text, found in symbols.items()}
    missing = set().union(*units.values()).difference(*(units[text] for text in chosen))
    found = list(chosen)
    while missing:
        best = max(units, key=lambda text: len(units[text] & missing) / len(symbols[text]))
        found.append(best)
        missing -= units[best]
    return found
