"""Train the tagger that finds unwritten ezafes, and put its weights into the package.

    pip install python-crfsuite
    .venv/bin/python tools/weights/ezafe.py LABELS.tsv.gz myxtts/weights/ezafe/weights.npz

LABELS has one sentence per line, its tokens separated by spaces. A token that ends in /1 takes an
ezafe. 4,000 random sentences are held out to measure the tagger.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import itertools
import random
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pycrfsuite  # type: ignore[import-not-found, unused-ignore]

from myxtts.text.persian import normalize_persian
from myxtts.text.persian_phonemes import clause_features

EZAFE = "/1"
MARKS = "؟!.؛:،"
HELD_OUT = 4_000
PARAMETERS = {
    "c1": 0.08,  # leaves about 50,000 weights
    "c2": 0.01,
    "feature.minfreq": 1,
    "feature.possible_transitions": True,
    "max_iterations": 200,
}
MIN_WEIGHT = 0.01

Clause = list[tuple[str, bool]]
Sentence = list[Clause]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("labels", type=Path, help="text file, may be compressed by gzip")
    parser.add_argument("weights", type=Path, help="file to write")
    options = parser.parse_args()
    sentences = read_sentences(options.labels)
    random.Random(0).shuffle(sentences)
    trainer = pycrfsuite.Trainer(verbose=False)
    for clause in itertools.chain.from_iterable(sentences[HELD_OUT:]):
        labels = ["1" if takes_ezafe else "0" for _, takes_ezafe in clause]
        trainer.append(list(clause_features([word for word, _ in clause])), labels)
    trainer.select("lbfgs")
    trainer.set_params(PARAMETERS)
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "model")
        trainer.train(model)
        tagger = pycrfsuite.Tagger()
        tagger.open(model)
        held_out = itertools.chain.from_iterable(sentences[:HELD_OUT])
        print(f"F1 on held-out sentences: {f1(tagger, held_out):.1%}")
        save(tagger.info(), options.weights)


def read_sentences(file: Path) -> list[Sentence]:
    """Read sentences in spans between punctuation marks; the last word of a span has no ezafe."""
    normalize = functools.cache(normalize_persian)
    open_text = gzip.open if file.suffix == ".gz" else open
    sentences: list[Sentence] = []
    with open_text(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            clauses: list[Clause] = [[]]
            for token in line.split():
                words = [word.strip(MARKS) for word in normalize(token.removesuffix(EZAFE)).split()]
                words = list(filter(None, words))
                if words:
                    clauses[-1] += [(word, False) for word in words[:-1]]
                    clauses[-1].append((words[-1], token.endswith(EZAFE)))
                else:
                    clauses.append([])
            sentences.append(
                [[*clause[:-1], (clause[-1][0], False)] for clause in clauses if clause]
            )
    return sentences


def f1(tagger: pycrfsuite.Tagger, clauses: Iterable[Clause]) -> float:
    counts: Counter[tuple[bool, bool]] = Counter()
    for clause in clauses:
        found = tagger.tag(list(clause_features([word for word, _ in clause])))
        counts.update((label, tag == "1") for (_, label), tag in zip(clause, found, strict=True))
    right = counts[True, True]
    return 2 * right / (2 * right + counts[True, False] + counts[False, True])


def save(model: pycrfsuite.Tagger, file: Path) -> None:
    """Save the difference of a feature's two weights; the labels depend on nothing else."""
    weights: Counter[str] = Counter()
    for (feature, label), weight in model.state_features.items():
        weights[feature] += weight if label == "1" else -weight
    names = sorted(name for name, weight in weights.items() if abs(weight) >= MIN_WEIGHT)
    pairs = [model.transitions.get((a, b), 0.0) for a in "01" for b in "01"]
    np.savez_compressed(
        file,
        features=np.frombuffer("\n".join(names).encode(), np.uint8),
        weights=np.array([weights[name] for name in names], np.float16),
        transitions=np.array(pairs, np.float32),
    )
    print(f"{file}: {len(names):,} weights, {file.stat().st_size / 1e3:.0f} KB")


if __name__ == "__main__":
    main()
