r"""Intelligibility of a run: WER of an independent ASR model.

    .venv/bin/pip install -e '.[eval]'
    .venv/bin/python benchmarks/intelligibility.py --run demo/run --data demo/corpus \
        [--text-guidance G] [--json FILE]

Measures the WER of `myxtts evaluate` on many held-out sentences, next to the recordings and their
resynthesis through mel and Griffin-Lim. English only, like the ASR model (Moonshine tiny).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

from myxtts import TTS  # noqa: E402
from myxtts.evaluation.evaluate import (  # noqa: E402
    evaluate,
    held_out_sentences,
    with_corpus,
)
from myxtts.evaluation.measures import (  # noqa: E402
    WORD_ERROR_RATE,
    open_toolbox,
)
from myxtts.models.speech_options import SpeechOptions  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--text-guidance", type=float, help="(default: the run's own)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tts = TTS(options.run)
    config = with_corpus(tts.config, options.data)
    sentences = held_out_sentences(config, tts.languages, options.sentences)
    toolbox = open_toolbox(only=[WORD_ERROR_RATE.name])
    speech = SpeechOptions(text_guidance=options.text_guidance)
    evaluation = evaluate(tts, str(options.run), sentences, toolbox, options=speech)
    results = {column: evaluation.mean(column, WORD_ERROR_RATE) for column in evaluation.columns}
    for column, value in results.items():
        print(f"{column:20} word error rate {value:.3f} on {len(sentences)} sentences")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
