r"""Quality of unseen sentences in unseen voices, cloned from a few seconds of reference audio.

    .venv/bin/pip install -e '.[eval,eval-torch]'
    .venv/bin/python benchmarks/unseen_voices.py --voices CORPUS --sentences FILE [--run RUN] \
        [--count 60] [--reference-seconds 5] [--json FILE] [flags of synthesize ...]

CORPUS has voices that the run was not trained on; FILE has one sentence per line. The voices take
turns. The reference is the beginning of a speaker's first clip. Resemblyzer compares clones with
the rest of the speaker's clips, Moonshine tiny gives the WER, and DistillMOS the quality. The same
number of recorded clips is measured for comparison. Figures are means with bootstrapped standard
errors; similarity is a median.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

import numpy as np  # noqa: E402

from myxtts import TTS  # noqa: E402
from myxtts.audio.files import clean_recording, read_audio  # noqa: E402
from myxtts.cli.parser import (  # noqa: E402
    add_speech_flags,
    add_vocoder_flag,
    speech_options,
)
from myxtts.data.metadata import LJSpeechDataset  # noqa: E402
from myxtts.evaluation.evaluate import scores_of  # noqa: E402
from myxtts.evaluation.measures import (  # noqa: E402  # noqa: E402
    WORD_ERROR_RATE,
    FloatArray,
    Measure,
    ResemblyzerVectors,
    Sound,
    Speech,
    cosine,
    open_toolbox,
)

MIN_REST_SECONDS = 3.0
DRAWS = 1_000


class HumanVoice(NamedTuple):
    speaker: str
    reference: FloatArray
    vector: FloatArray
    """Voice vector of the speech after the reference."""
    clip: FloatArray
    text: str


class Trial(NamedTuple):
    speaker: str
    text: str
    errors: float
    words: float
    quality: float
    similarity: float
    nearest: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", default=None, help="(default: the included base model)")
    parser.add_argument("--voices", type=Path, required=True, metavar="CORPUS")
    parser.add_argument("--sentences", type=Path, required=True, metavar="FILE")
    parser.add_argument("--language", default="en")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--reference-seconds", type=float, default=5.0)
    parser.add_argument("--json", type=Path)
    add_vocoder_flag(parser)
    add_speech_flags(parser)
    options = parser.parse_args()

    tts, vectors = TTS(options.run, vocoder=options.vocoder), ResemblyzerVectors()
    voices = human_voices(tts, options.voices, options.reference_seconds, vectors)
    lines = options.sentences.read_text(encoding="utf-8").splitlines()
    sentences = [line for line in lines if line.strip()][: options.count]
    speech = speech_options(options)
    measures = open_toolbox(only=(WORD_ERROR_RATE.name, "distillmos")).measures

    def judge(voice: HumanVoice, text: str, waveform: FloatArray) -> Trial:
        sound = Sound(waveform=waveform, sample_rate_hz=tts.sample_rate_hz)
        return judged(voice, text, options.language, sound, voices, vectors, measures)

    def say(text: str, voice: HumanVoice) -> FloatArray:
        return tts.tts(text, tts.voice_of(voice.reference), options.language, options=speech)

    turns = zip(itertools.cycle(voices), sentences, strict=False)
    results = {
        "clones": [judge(voice, text, say(text, voice)) for voice, text in turns],
        "recordings": [judge(voice, voice.text, voice.clip) for voice in voices],
    }
    for name, trials in results.items():
        print(f"{name:11}", describe(trials))
    if options.json:
        content = {name: [trial._asdict() for trial in trials] for name, trials in results.items()}
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False), "utf-8")


def human_voices(
    tts: TTS, corpus: Path, reference_seconds: float, vectors: ResemblyzerVectors
) -> list[HumanVoice]:
    """Yield a voice for each speaker with enough speech."""
    clips = defaultdict(list)
    for clip in LJSpeechDataset(corpus):
        clips[clip.speaker].append(clip)
    cut = round(reference_seconds * tts.sample_rate_hz)
    voices = []
    for speaker, own in sorted(clips.items()):
        recordings = [
            clean_recording(read_audio(clip.audio_path, tts.sample_rate_hz), tts.config.audio)
            for clip in own
        ]
        rest = np.concatenate([recordings[0][cut:], *recordings[1:]])
        if rest.size < MIN_REST_SECONDS * tts.sample_rate_hz:
            continue
        vector = vectors.of(Sound(waveform=rest, sample_rate_hz=tts.sample_rate_hz))
        if vector is not None:
            reference = recordings[0][:cut]
            voices.append(HumanVoice(speaker, reference, vector, recordings[-1], own[-1].text))
    return voices


def judged(
    voice: HumanVoice,
    text: str,
    language: str,
    sound: Sound,
    voices: Sequence[HumanVoice],
    vectors: ResemblyzerVectors,
    measures: Sequence[Measure],
) -> Trial:
    speech = Speech(
        waveform=sound.waveform,
        sample_rate_hz=sound.sample_rate_hz,
        text=text,
        language=language,
        reference=Sound(waveform=voice.reference, sample_rate_hz=sound.sample_rate_hz),
    )
    scores = scores_of(speech, measures)
    vector = vectors.of(sound)
    near = {it.speaker: 0.0 if vector is None else cosine(vector, it.vector) for it in voices}
    words = scores[WORD_ERROR_RATE.name]
    return Trial(
        voice.speaker,
        text,
        words.value * words.weight,
        words.weight,
        scores["distillmos"].value,
        near[voice.speaker],
        max(near, key=near.__getitem__),
    )


def describe(trials: Sequence[Trial]) -> str:
    draws = np.random.default_rng(0).integers(len(trials), size=(DRAWS, len(trials)))

    def figure(of: Callable[[Sequence[Trial]], float], digits: int) -> str:
        error = np.std([of([trials[index] for index in drawn]) for drawn in draws])
        return f"{of(trials):.{digits}f} ± {error:.{digits}f}"

    def word_error_rate(those: Sequence[Trial]) -> float:
        return sum(one.errors for one in those) / sum(one.words for one in those)

    def nearest(those: Sequence[Trial]) -> float:
        return float(np.mean([one.nearest == one.speaker for one in those]))

    parts = [
        ("word error rate", figure(word_error_rate, 3)),
        ("own speaker is nearest", figure(nearest, 2)),
        ("similarity", figure(lambda of: float(np.median([t.similarity for t in of])), 3)),
        ("DistillMOS", figure(lambda of: float(np.mean([t.quality for t in of])), 2)),
    ]
    voices = len({trial.speaker for trial in trials})
    return f"{len(trials)} of {voices} voices: " + ", ".join(f"{n} {v}" for n, v in parts)


if __name__ == "__main__":
    main()
