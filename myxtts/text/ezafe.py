"""Finds the words of a Persian clause that take an unwritten ezafe.

The tagger is a linear-chain CRF with two labels. `tools/weights/ezafe.py` trains it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from importlib import resources

import numpy as np

_BEFORE, _AFTER = "<", ">"


def ezafe_words(words: Sequence[str]) -> list[bool]:
    """Return, for each word of a clause without punctuation, whether it takes an ezafe.

    Words are in the standard spelling, without vowel signs. The last word never takes one.
    """
    weights, (stay, start, stop, continued) = _model()
    # Scores of the best labelings in which the current word has no ezafe, or has one.
    without, having = 0.0, 0.0
    sources: list[tuple[bool, bool]] = []
    for index, features in enumerate(clause_features(words)):
        score = sum(weights.get(feature, 0.0) for feature in features)
        if index == 0:
            having = score
            sources.append((False, False))
            continue
        sources.append((having + stop > without + stay, having + continued > without + start))
        without, having = (
            max(without + stay, having + stop),
            max(without + start, having + continued) + score,
        )
    labels = [False] * len(words)
    label = False
    for index in range(len(words) - 1, -1, -1):
        labels[index] = label
        label = sources[index][label]
    return labels


def clause_features(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the features of each word: itself, its neighbors, their beginnings and ends."""
    padded = (_BEFORE, _BEFORE, *words, _AFTER, _AFTER)
    for before_that, before, word, after, after_that in zip(
        padded, padded[1:], padded[2:], padded[3:], padded[4:], strict=False
    ):
        yield [
            "b",
            "w" + word,
            "p" + before,
            "n" + after,
            "P" + before_that,
            "N" + after_that,
            f"wn{word} {after}",
            f"pw{before} {word}",
            *(f"s{word[-length:]}" for length in (1, 2, 3, 4) if length < len(word)),
            *(f"f{word[:length]}" for length in (1, 2, 3) if length < len(word)),
            *(f"ns{after[-length:]}" for length in (1, 2, 3) if length < len(after)),
            *(f"nf{after[:length]}" for length in (1, 2, 3) if length < len(after)),
            *(f"ps{before[-length:]}" for length in (1, 2, 3) if length < len(before)),
            f"sn{word[-2:]} {after[:3]}",
            f"ss{word[-2:]} {after[-2:]}",
        ]


@functools.cache
def _model() -> tuple[dict[str, float], tuple[float, float, float, float]]:
    """Return weights by feature, and those of the pairs: none-none, none-ezafe, and so on."""
    stored = resources.files("myxtts") / "weights" / "ezafe" / "weights.npz"
    with stored.open("rb") as file, np.load(file) as arrays:
        names = arrays["features"].tobytes().decode().split("\n")
        weights = dict(zip(names, arrays["weights"].astype(float).tolist(), strict=True))
        stay, start, stop, continued = arrays["transitions"].astype(float).tolist()
    return weights, (stay, start, stop, continued)
