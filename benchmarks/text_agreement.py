"""Whether the base model tells right texts of clips from wrong ones, as `myxtts collect` uses it.

    .venv/bin/python benchmarks/text_agreement.py CORPUS [--clips 40] [--language en] [--json FILE]

Each clip is compared with its own text, with the text of another clip of about the same length, and
with a text of which only the first half is right. The share below half of the median agreement of
the right texts is what `collect` would put aside.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from myxtts.audio.files import read_audio
from myxtts.collect.texts import open_listener
from myxtts.data.metadata import LJSpeechDataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--clips", type=int, default=40)
    parser.add_argument("--language", default="en")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    listener = open_listener(options.language)
    if listener is None:
        raise SystemExit(f"the base model does not know '{options.language}'")
    every = list(LJSpeechDataset(options.corpus, validation_fraction=None))
    order = np.random.default_rng(0).permutation(len(every))
    rows = [every[index] for index in order[: options.clips]]
    found: dict[str, list[float]] = {"right": [], "of another clip": [], "half right": []}
    for row in rows:
        samples = read_audio(row.audio_path, listener.sample_rate_hz)
        others = (one.text for one in rows if one.text != row.text)
        other = min(others, key=lambda text: abs(len(text) - len(row.text)))
        texts = (row.text, other, _half_of_each(row.text, other))
        for values, text in zip(found.values(), texts, strict=True):
            value = listener.agreement(samples, text)
            if value is not None:
                values.append(value)
    limit = float(np.median(found["right"])) / 2
    results = {
        name: {
            "median agreement": float(np.median(values)),
            "share put aside": float(np.mean(np.array(values) < limit)),
        }
        for name, values in found.items()
    }
    for name, row_of_results in results.items():
        figures = "  ".join(f"{key} {value:.2f}" for key, value in row_of_results.items())
        print(f"{name:<18} {figures}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


def _half_of_each(first: str, second: str) -> str:
    ours, theirs = first.split(), second.split()
    return " ".join([*ours[: len(ours) // 2], *theirs[len(theirs) // 2 :]])


if __name__ == "__main__":
    main()
