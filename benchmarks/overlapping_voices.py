"""How many clips in which two speak at once `myxtts collect` puts aside, and how many others.

    .venv/bin/pip install -e '.[eval-torch]'
    .venv/bin/python benchmarks/overlapping_voices.py CORPUS [CORPUS ...] --other CORPUS2

Each CORPUS is of one voice. To a share of its clips somebody of CORPUS2 is added, 0, 3 or 6 dB
below, over the whole clip or over its second half. Then voices are compared as in collecting,
alone and together with clips of the others, since more is put aside where others are heard.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from myxtts.audio.files import FloatArray, read_audio, trim_silence
from myxtts.collect.collect import Clip, choose_voices
from myxtts.collect.corpus import KEPT
from myxtts.collect.voices import ClipVoice, open_encoder
from myxtts.data.metadata import LJSpeechDataset
from myxtts.evaluation.measures import MEASURED_RATE_HZ, Sound

SECONDS = (2.5, 9.0)
BELOW_DB = (0, 3, 6)
WHOLE, HALF, ALONE = "whole clip", "second half", "nobody"
OTHER_CLIPS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpora", type=Path, nargs="+", metavar="CORPUS")
    parser.add_argument("--other", type=Path, required=True, metavar="CORPUS2")
    parser.add_argument("--clips", type=int, default=60, help="of each CORPUS")
    parser.add_argument("--share", type=float, default=0.2, help="of the clips with two voices")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    generator = np.random.default_rng(options.seed)
    encoder = open_encoder()

    def voice_of(samples: FloatArray) -> ClipVoice:
        heard = encoder.with_windows(Sound(waveform=samples, sample_rate_hz=MEASURED_RATE_HZ))
        assert heard is not None
        return ClipVoice(*(part / np.linalg.norm(part, axis=-1, keepdims=True) for part in heard))

    others = itertools.chain.from_iterable(
        speech_of(options.other, generator) for _ in itertools.count()
    )
    outcomes: dict[tuple[bool, str], list[bool]] = {}
    for corpus in options.corpora:
        kinds, voices = [], []
        own = itertools.islice(speech_of(corpus, generator), options.clips)
        for number, samples in enumerate(own):
            kind = ALONE
            if number < options.clips * options.share:
                kind = (WHOLE, HALF)[number % 2]
                start = 0 if kind == WHOLE else samples.size // 2
                gain = np.float32(10 ** (-BELOW_DB[number // 2 % 3] / 20))
                second = next(others)[: samples.size - start]
                samples[start : start + second.size] += gain * second
            kinds.append(kind)
            voices.append(voice_of(samples))
        heard_too = [voice_of(next(others)) for _ in range(OTHER_CLIPS)]
        for with_others in (False, True):
            every = voices + heard_too * with_others
            named = {str(number): voice for number, voice in enumerate(every)}
            clips = [Clip(name, "", 0.0, 5.0, 4.0, {}, "", "en") for name in named]
            choose_voices(clips, named, None, all_speakers=False)
            for kind, clip in zip(kinds, clips, strict=False):
                outcomes.setdefault((with_others, kind), []).append(clip.status != KEPT)
    for (with_others, kind), aside in sorted(outcomes.items()):
        heard = "others are heard" if with_others else "nobody else is heard"
        print(f"{heard:<22} added: {kind:<12} put aside {np.mean(aside):.3f} of {len(aside)}")


def speech_of(corpus: Path, generator: np.random.Generator) -> Iterator[FloatArray]:
    """Clips of some seconds in random order, without silence around them, peaks at 0.5."""
    rows = list(LJSpeechDataset(corpus, validation_fraction=None))
    for index in generator.permutation(len(rows)):
        samples = read_audio(rows[index].audio_path, MEASURED_RATE_HZ)
        samples = trim_silence(samples, MEASURED_RATE_HZ, 35.0, 0.0)
        if SECONDS[0] * MEASURED_RATE_HZ <= samples.size:
            samples = samples[: round(SECONDS[1] * MEASURED_RATE_HZ)]
            yield (samples / (2 * np.abs(samples).max())).astype(np.float32)


if __name__ == "__main__":
    main()
