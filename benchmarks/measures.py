"""Do the metrics rank good and bad speech correctly?

    .venv/bin/pip install -e '.[eval,eval-torch]'
    .venv/bin/python benchmarks/measures.py [--sentences 12] [--json FILE]

espeak-ng speaks each sentence as the recording. Evaluated are the recording, its copy through mel
and Griffin-Lim, the same words in another order, the sentence in another voice, the recording in
loud noise, and noise alone. Each metric must detect what it is meant for; the last column says
whether it did.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

import numpy as np  # noqa: E402

from myxtts.audio.files import set_loudness  # noqa: E402
from myxtts.audio.griffin_lim import GriffinLim  # noqa: E402
from myxtts.audio.mel import clip_log_mel  # noqa: E402
from myxtts.config.config import AudioConfig  # noqa: E402
from myxtts.data.demo import WORDS_PER_MINUTE, sentences  # noqa: E402
from myxtts.evaluation.evaluate import scores_of  # noqa: E402
from myxtts.evaluation.measures import (  # noqa: E402
    FloatArray,
    Metric,
    Score,
    Sound,
    Speech,
    open_toolbox,
)
from myxtts.text import espeak  # noqa: E402

AUDIO = AudioConfig(sample_rate_hz=espeak.SAMPLE_RATE_HZ)
VOICE, OTHER_VOICE = "en-us+m3", "en-us+f2"
NOISE_BELOW_SPEECH_DB = 0.0
CONDITIONS = ("recording", "copy", "words swapped", "other voice", "noisy", "noise")
# Expected order of each metric: speech on the left of a sign is better than on the right.
ORDERS = {
    "wer": ["recording < words swapped", "copy < words swapped", "copy < noise"],
    "cer": ["recording < words swapped", "copy < words swapped", "copy < noise"],
    "similarity": ["recording > other voice > noise", "copy > other voice"],
    "dnsmos": ["recording > noisy > noise", "copy > noisy"],
    "distillmos": ["recording > noisy", "copy > noisy", "copy > noise"],
    "mel_cepstral_distance": [
        "recording < copy < other voice < noise",
        "copy < words swapped < noise",
    ],
    "pitch_error": ["recording < copy < words swapped < other voice"],
    "voicing_error": [
        "recording < copy < words swapped < noise",
        "recording < other voice < noise",
    ],
}


def say(text: str, voice: str) -> FloatArray:
    samples = espeak.speak(text, voice, words_per_minute=WORDS_PER_MINUTE)
    return set_loudness(np.asarray(samples, np.float32), AUDIO.sample_rate_hz, -23.0)


def conditions(text: str, generator: random.Random) -> dict[str, FloatArray]:
    recording = say(text, VOICE)
    words = text.rstrip(".?!").split()
    swapped = words
    while swapped == words:
        swapped = generator.sample(words, len(words))
    noise = np.random.default_rng(len(text)).standard_normal(recording.size).astype(np.float32)
    noise = set_loudness(noise, AUDIO.sample_rate_hz, -23.0 - NOISE_BELOW_SPEECH_DB)
    return {
        "recording": recording,
        "copy": GriffinLim(AUDIO).samples(clip_log_mel(AUDIO, 80)(recording)),
        "words swapped": say(" ".join(swapped), VOICE),
        "other voice": say(text, OTHER_VOICE),
        "noisy": recording + noise,
        "noise": noise,
    }


def mean(scores: Sequence[Score]) -> float | None:
    weight = sum(score.weight for score in scores)
    return sum(score.value * score.weight for score in scores) / weight if weight else None


def is_in_order(metric: Metric, means: dict[str, float | None]) -> bool | None:
    """Whether every chain of the metric's expected order holds; None if it has none."""
    if metric.name not in ORDERS:
        return None
    sign = "<" if metric.better == "lower" else ">"
    for chain in ORDERS[metric.name]:
        for one, other in itertools.pairwise(chain.split(f" {sign} ")):
            better, worse = means[one], means[other]
            if better is None or worse is None or not (worse - better) * (1, -1)[sign == ">"] > 0:
                return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=12)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    toolbox = open_toolbox()
    for left_out in toolbox.left_out:
        print(left_out)
    generator = random.Random(0)
    texts = sentences("en")[1][: options.sentences + 1]
    scores: dict[str, dict[str, list[Score]]] = {name: {} for name in CONDITIONS}
    for text, other_text in itertools.pairwise(texts):
        reference = Sound(waveform=say(other_text, VOICE), sample_rate_hz=AUDIO.sample_rate_hz)
        clips = conditions(text, generator)
        recording = Sound(waveform=clips["recording"], sample_rate_hz=AUDIO.sample_rate_hz)
        for name, waveform in clips.items():
            speech = Speech(
                waveform=waveform,
                sample_rate_hz=AUDIO.sample_rate_hz,
                text=text,
                language="en",
                reference=reference,
                recording=recording,
            )
            for metric, score in scores_of(speech, toolbox.measures).items():
                scores[name].setdefault(metric, []).append(score)
    print(f"{'':<26}" + "".join(f"{name:>15}" for name in CONDITIONS) + f"{'in order':>10}")
    results: dict[str, Any] = {}
    for metric in toolbox.metrics:
        means = {name: mean(scores[name].get(metric.name, [])) for name in CONDITIONS}
        if any(value is not None for value in means.values()):
            right = is_in_order(metric, means)
            results[metric.name] = {**means, "in_order": right}
            values = ("" if value is None else f"{value:.3f}" for value in means.values())
            verdict = {True: "yes", False: "NO", None: ""}[right]
            row = "".join(f"{value:>15}" for value in values)
            print(f"{metric.title:<26}{row}{verdict:>10}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
