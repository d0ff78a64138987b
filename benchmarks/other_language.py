"""How a voice that is heard in one language speaks another.

    .venv/bin/pip install -e '.[eval,eval-torch]'
    .venv/bin/python benchmarks/other_language.py --voices CORPUS --sentences FILE \\
        --language fa --other-sentences FILE [--recordings CORPUS] [--run RUN] [--count 20]

CORPUS of --voices has voices that speak English; they take turns, and each says one sentence of
either file. Of the English ones those are taken that have about as many phonemes as the others: the
shorter a sentence, the less similar any voice is found. --recordings has the other language as it
is spoken by others. Similarity to the voice is Resemblyzer's, quality DistillMOS; pitch is the
median's distance from that of the reference, and its spread between the tenth and the ninetieth
percentile; agreement is how well the base model aligns the sound with its text, about 0 for another
text. The base judges itself there, so it counts beside the recordings only: no independent
recogniser takes part.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

import numpy as np  # noqa: E402
from unseen_voices import human_voices  # noqa: E402

from myxtts import TTS  # noqa: E402
from myxtts.audio.files import clean_recording, read_audio  # noqa: E402
from myxtts.collect.texts import open_listener  # noqa: E402
from myxtts.data.metadata import LJSpeechDataset  # noqa: E402
from myxtts.evaluation.measures import (  # noqa: E402  # noqa: E402
    MEASURED_RATE_HZ,
    Distillmos,
    FloatArray,
    ResemblyzerVectors,
    Sound,
    Speech,
    cosine,
    pitch_hz,
)

HOP_SAMPLES = MEASURED_RATE_HZ // 100


class Spoken(NamedTuple):
    text: str
    waveform: FloatArray
    reference: FloatArray


class Trial(NamedTuple):
    similarity: float
    quality: float
    phonemes_per_second: float
    pitch_from_reference_semitones: float
    pitch_spread_semitones: float
    agreement: float
    agreement_with_another_text: float


class Judges:
    def __init__(self) -> None:
        self.vectors = ResemblyzerVectors()
        self._quality = Distillmos()

    def trials(self, spoken: Sequence[Spoken], tts: TTS, language: str) -> list[Trial]:
        listener = open_listener(language)
        if listener is None:
            raise SystemExit(f"the base model does not know '{language}'")
        found = []
        for index, one in enumerate(spoken):
            reference = Sound(waveform=one.reference, sample_rate_hz=tts.sample_rate_hz)
            speech = Speech(
                waveform=one.waveform,
                sample_rate_hz=tts.sample_rate_hz,
                text=one.text,
                language=language,
                reference=reference,
            )
            ours, theirs = self.vectors.of(speech), self.vectors.of(reference)
            pitch, usual = _semitones(speech), _semitones(reference)
            texts = one.text, spoken[index - 1].text
            agreements = [listener.agreement(one.waveform, text) for text in texts]
            found.append(
                Trial(
                    np.nan if ours is None or theirs is None else cosine(ours, theirs),
                    self._quality.scores(speech)["distillmos"].value,
                    # Without the tokens at both ends of a sentence.
                    (len(tts.tokenizer.encode(one.text, language)) - 2) / speech.seconds,
                    abs(np.median(pitch) - np.median(usual)),
                    np.subtract(*np.percentile(pitch, [90, 10])),
                    *(np.nan if value is None else value for value in agreements),
                )
            )
        return found


def _semitones(sound: Sound) -> FloatArray:
    pitch = pitch_hz(sound.at_measured_rate, HOP_SAMPLES)
    return 12.0 * np.log2(pitch[np.isfinite(pitch)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", default=None, help="(default: the included base model)")
    parser.add_argument("--voices", type=Path, required=True, metavar="CORPUS")
    parser.add_argument("--sentences", type=Path, required=True, metavar="FILE")
    parser.add_argument("--language", required=True, help="of the other sentences")
    parser.add_argument("--other-sentences", type=Path, required=True, metavar="FILE")
    parser.add_argument("--recordings", type=Path, metavar="CORPUS")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--reference-seconds", type=float, default=5.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    tts, judges = TTS(options.run), Judges()
    voices = human_voices(tts, options.voices, options.reference_seconds, judges.vectors)
    others = _lines(options.other_sentences)[: options.count]
    of_like_length = paired_by_length(
        [len(tts.tokenizer.encode(text, options.language)) for text in others],
        {text: len(tts.tokenizer.encode(text, "en")) for text in _lines(options.sentences)},
    )
    results: dict[str, list[Trial]] = {}
    for language, sentences in (("en", of_like_length), (options.language, others)):
        turns = zip(itertools.cycle(voices), sentences, strict=False)
        spoken = [
            Spoken(text, tts.tts(text, tts.voice_of(voice.reference), language), voice.reference)
            for voice, text in turns
        ]
        results[f"clones, {language}"] = judges.trials(spoken, tts, language)
    if options.recordings:
        clips = list(LJSpeechDataset(options.recordings, validation_fraction=None))
        order = np.random.default_rng(0).permutation(len(clips))[: options.count]
        recorded = []
        for clip in (clips[index] for index in order):
            samples = read_audio(clip.audio_path, tts.sample_rate_hz)
            cleaned = clean_recording(samples, tts.config.audio)
            recorded.append(Spoken(clip.text, cleaned, cleaned))
        results[f"recordings, {language}"] = judges.trials(recorded, tts, language)
    for name, trials in results.items():
        print(name, describe(trials), sep="\n  ")
    if options.json:
        content = {name: [trial._asdict() for trial in trials] for name, trials in results.items()}
        options.json.write_text(json.dumps(content, indent=1), "utf-8")


def describe(trials: Sequence[Trial]) -> str:
    columns = zip(*trials, strict=True)
    return "\n  ".join(
        f"{field.replace('_', ' ')}: {np.nanmedian(column):.2f}"
        for field, column in zip(Trial._fields, columns, strict=True)
    )


def paired_by_length(lengths: Sequence[int], texts: Mapping[str, int]) -> list[str]:
    """For each length the text, of those not taken yet, whose length is nearest."""
    left = dict(texts)
    found = []
    for length in lengths:
        text = min(left, key=lambda text: abs(left[text] - length))
        del left[text]
        found.append(text)
    return found


def _lines(file: Path) -> list[str]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip()]


if __name__ == "__main__":
    main()
