"""Phoneme errors of the Persian front end on sentences that people transcribed.

    .venv/bin/python benchmarks/persian_g2p.py FILE.csv [--no-ezafe] [--espeak] [--json FILE]

FILE.csv has the columns Grapheme and Phoneme. Phonemes are those of the GE2PE test sets: / is a,
a is ā, @ is the glottal stop, $ is š, c is č and ; is ž; a 1 after the e of a word's end marks an
ezafe. Stress, length, glottal stops, spaces and the y between an i and another vowel do not count.

PER is edits by phonemes of the reference, summed over sentences. A word is wrong if an edit of
the best alignment falls into it. An ezafe is found if its e is aligned with an e, and false if an e
is inserted after a word that has none.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from myxtts.text.tokenizer import is_spoken, text_symbols

EZAFE = "1"
ESPEAK_RULES = 2  # the version of the text rules that left Persian to espeak-ng
OF_IPA = {
    "a": "/", "ɑ": "a", "ʃ": "$", "ʒ": ";", "tʃ": "c", "dʒ": "j", "ɡ": "g", "j": "y", "ɾ": "r",
    "ɹ": "r", "ʔ": "", "1": "", "ː": "", "ˈ": "", "ˌ": "",
}  # fmt: skip
_IPA = re.compile("|".join(sorted(OF_IPA, key=len, reverse=True)))
_GLIDE = re.compile("(?<=i)y(?=[/aeiou])")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--no-ezafe", action="store_true", help="do not add unwritten ezafes")
    parser.add_argument("--espeak", action="store_true", help="measure espeak-ng alone")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with options.file.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    rules = {"rules": ESPEAK_RULES} if options.espeak else {}
    counts: Counter[str] = Counter()
    ezafe = not options.no_ezafe
    text_symbols("سلام", "fa", "phonemes", ezafe=ezafe, **rules)  # loads espeak-ng and the tagger
    start = time.process_time()
    spoken = [text_symbols(row["Grapheme"], "fa", "phonemes", ezafe=ezafe, **rules) for row in rows]
    seconds = time.process_time() - start
    for row, symbols in zip(rows, spoken, strict=True):
        counts += errors(reference_words(row["Phoneme"]), from_ipa(symbols))
    right, found, missed = counts["right ezafe"], counts["false ezafe"], counts["missed ezafe"]
    report = {
        "sentences": len(rows),
        "phoneme_error_percent": 100 * counts["edits"] / counts["phonemes"],
        "word_error_percent": 100 * counts["wrong words"] / counts["words"],
        "ezafe_f1_percent": 100 * 2 * right / max(2 * right + found + missed, 1),
        "ezafe_precision_percent": 100 * right / max(right + found, 1),
        "ezafe_recall_percent": 100 * right / max(right + missed, 1),
        "cpu_milliseconds_per_sentence": 1_000 * seconds / len(rows),
    }
    for name, value in report.items():
        print(f"{name:40}{value:8.2f}" if isinstance(value, float) else f"{name:40}{value:8}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))


def from_ipa(symbols: Sequence[str]) -> str:
    ipa = "".join(symbol if is_spoken(symbol) else " " for symbol in symbols)
    sounds = _IPA.sub(lambda match: OF_IPA[match.group()], ipa)
    return _GLIDE.sub("", sounds).replace(" ", "")


def reference_words(phonemes: str) -> list[str]:
    """Return the words of a reference; an ezafe still has its mark."""
    words = phonemes.replace("@", "").split()
    return [re.sub(f"(?<=i)y(?={EZAFE}?[/aeiou])", "", word) for word in words]


def errors(words: Sequence[str], spoken: str) -> Counter[str]:
    plain = [word.replace(EZAFE, "") for word in words]
    reference = "".join(plain)
    owners = [index for index, word in enumerate(plain) for _ in word]
    last: set[int] = set()  # index of the last phoneme of each word
    with_ezafe: set[int] = set()
    end = 0
    for word, own in zip(words, plain, strict=True):
        end += len(own)
        last.add(end - 1)
        if word.endswith(EZAFE):
            with_ezafe.add(end - 1)
    costs = [list(range(len(spoken) + 1))]
    for row, sound in enumerate(reference, start=1):
        costs.append([row])
        for column, said in enumerate(spoken):
            costs[row].append(
                min(
                    costs[row - 1][column] + (sound != said),
                    costs[row - 1][column + 1] + 1,
                    costs[row][column] + 1,
                )
            )
    wrong: set[int] = set()
    matched: set[int] = set()
    inserted: set[int] = set()
    row, column = len(reference), len(spoken)
    while row or column:
        cost = costs[row][column]
        same = bool(row and column) and reference[row - 1] == spoken[column - 1]
        if row and column and cost == costs[row - 1][column - 1] + (not same):
            (matched if same else wrong).add(row - 1)
            row, column = row - 1, column - 1
        elif column and cost == costs[row][column - 1] + 1:
            column -= 1
            wrong.add(max(row - 1, 0))
            if spoken[column] == "e":
                inserted.add(row - 1)
        else:
            row -= 1
            wrong.add(row)
    return Counter(
        {
            "edits": costs[-1][-1],
            "phonemes": len(reference),
            "words": len(words),
            "wrong words": len({owners[at] for at in wrong}),
            "right ezafe": len(with_ezafe & matched),
            "missed ezafe": len(with_ezafe - matched),
            "false ezafe": len(inserted & (last - with_ezafe)),
        }
    )


if __name__ == "__main__":
    main()
