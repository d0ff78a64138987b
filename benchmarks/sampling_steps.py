"""Words, quality and time of speech by the number of sampling steps, and by vocoder.

    .venv/bin/pip install -e '.[eval,eval-torch]'
    .venv/bin/python benchmarks/sampling_steps.py [--run RUN] [--steps 1 2 4 6 10] \\
        [--vocoder included griffin-lim RUN] [--reference me.wav] [--sentences FILE] \\
        [--count 40] [--json FILE]

The saved voices of the run (by default of the base model), or that of a recording, say the
sentences in turn; FILE has one per line (default: those of the demo). A sentence has the same
durations, voice and noise in every row, and for all vocoders the same mel. Words are those of
Moonshine tiny, quality is DistillMOS; means with bootstrapped standard errors.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

from bootstrap import standard_error, weighted_mean  # noqa: E402

from myxtts import TTS  # noqa: E402
from myxtts.evaluation.evaluate import scores_of  # noqa: E402
from myxtts.evaluation.measures import (  # noqa: E402
    WORD_ERROR_RATE,
    Measure,
    Score,
    Sound,
    Speech,
    open_toolbox,
)
from myxtts.models.speech_options import SpeechOptions  # noqa: E402
from myxtts.text.languages import find_language  # noqa: E402

QUALITY = "distillmos"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", default=None, help="(default: the included base model)")
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 2, 4, 6, 10])
    parser.add_argument("--vocoder", nargs="+", default=["included"])
    parser.add_argument("--reference", type=Path, help="(default: the saved voices of the run)")
    parser.add_argument("--sentences", type=Path, metavar="FILE")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    sentences = find_language("en").demo_sentences()
    if options.sentences is not None:
        sentences = options.sentences.read_text(encoding="utf-8").splitlines()
    measures = open_toolbox(only=(WORD_ERROR_RATE.name, QUALITY)).measures
    table = {}
    print(f"{'vocoder':14} steps  word error rate      DistillMOS  real-time factor")
    for vocoder in options.vocoder:
        tts = TTS(options.run, vocoder=None if vocoder == "included" else vocoder)
        tts.warm_up()
        for steps in options.steps:
            row = measure(tts, sentences[: options.count], options.reference, steps, measures)
            table[f"{vocoder}, {steps} steps"] = row
            words, quality = (
                "{:.3f} ± {:.3f}".format(*row[name]) for name in (WORD_ERROR_RATE.name, QUALITY)
            )
            factor = row["real_time_factor"]
            print(f"{vocoder:14} {steps:5} {words:>16} {quality:>15} {factor:17.3f}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(table, indent=1), encoding="utf-8")


def measure(
    tts: TTS,
    sentences: Sequence[str],
    reference: Path | None,
    steps: int,
    measures: Sequence[Measure],
) -> dict[str, Any]:
    names = [None] if reference is not None else tts.voices
    scores, spent, seconds = [], 0.0, 0.0
    for text, name in zip(sentences, itertools.cycle(names), strict=False):
        started = time.perf_counter()
        speech_options = SpeechOptions(steps=steps)
        samples = tts.tts(text, reference, "en", voice=name, options=speech_options)
        spent += time.perf_counter() - started
        seconds += samples.size / tts.sample_rate_hz
        sound = Sound(waveform=samples, sample_rate_hz=tts.sample_rate_hz)
        speech = Speech(**vars(sound), text=text, language="en", reference=sound)
        scores.append(scores_of(speech, measures))
    of_judges = {
        name: mean_and_error([row[name] for row in scores if name in row])
        for name in (WORD_ERROR_RATE.name, QUALITY)
    }
    return {**of_judges, "real_time_factor": spent / seconds}


def mean_and_error(scores: list[Score]) -> tuple[float, float]:
    return weighted_mean(scores), standard_error(scores, weighted_mean)


if __name__ == "__main__":
    main()
