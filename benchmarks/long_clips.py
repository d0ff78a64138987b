"""Whether long clips are cut where they should be (data.long_clips: split).

    .venv/bin/python benchmarks/long_clips.py CORPUS [--clips 300] [--json FILE]

Two to four consecutive clips of a speaker are laid end to end, with 0.1 to 0.6 seconds of noise as
quiet as the clip between them, so the right places are known. A cut at the end of a clip's text is
right if at most 0.1 seconds of speech lie between it and the end of the clip's sound. A cut inside
a clip's text is counted apart; it can only be seen to lie in the sound of that clip.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.audio.files import (
    FloatArray,
    clean_recording,
    read_audio,
    window_levels,
    window_samples,
)
from myxtts.audio.writing import write_audio
from myxtts.config.config import XTTSConfig
from myxtts.data.corpus.checks import check_clip
from myxtts.data.corpus.dataset import LJSpeechDataset, Utterance
from myxtts.data.corpus.parts import parts_of
from myxtts.data.corpus.pause_matching import certain_cuts
from myxtts.text.tokenizer import text_symbols

GAP_SECONDS = (0.1, 0.6)
TOLERATED_SPEECH_SECONDS = 0.1
SPEECH_BELOW_LOUDEST_DB, SPEECH_ABOVE_NOISE_DB = 25, 10
# A long clip should become two parts or more.
LONGEST_PART = 0.7


@dataclasses.dataclass(frozen=True)
class Joined:
    texts: list[str]
    language: str
    samples: FloatArray
    spans: list[tuple[int, int]]
    """First and last sample of each clip."""

    @property
    def text(self) -> str:
        return " ".join(self.texts)


def join(items: list[Utterance], config: XTTSConfig, generator: random.Random) -> Joined:
    rate_hz = config.audio.sample_rate_hz
    pieces: list[FloatArray] = []
    spans = []
    for item in items:
        recording = read_audio(item.audio_path, rate_hz)
        if pieces:
            quiet = np.sort(np.abs(recording))[: recording.size // 20]
            level = float(np.sqrt(np.mean(np.square(quiet)))) + 1e-5
            gap = int(generator.uniform(*GAP_SECONDS) * rate_hz)
            noise = np.random.default_rng(gap).normal(0, level, gap)
            pieces.append(noise.astype(np.float32))
        start = sum(piece.size for piece in pieces)
        pieces.append(clean_recording(recording, config.audio))
        spans.append((start, start + pieces[-1].size))
    texts = [item.text if item.text[-1] in ".?!؟…" else f"{item.text}." for item in items]
    return Joined(texts, items[0].language, np.concatenate(pieces), spans)


def speech_seconds(samples: FloatArray, start: int, end: int, rate_hz: int) -> float:
    levels, window = window_levels(samples, rate_hz), window_samples(rate_hz)
    noise, loudest = np.percentile(levels, [3, 90])
    loud = levels > max(
        loudest * 10 ** (-SPEECH_BELOW_LOUDEST_DB / 20), noise * 10 ** (SPEECH_ABOVE_NOISE_DB / 20)
    )
    first, last = sorted((start, end))
    return float(loud[first // window : last // window].sum()) * window / rate_hz


def judge(clip: Joined, rate_hz: int) -> dict[str, int]:
    """Counts of the ends of clips, and of the right and wrong cuts."""
    ends = []
    for text in clip.texts[:-1]:
        ends.append(
            (ends[-1] + 1 if ends else 0) + len(text_symbols(text, clip.language, "phonemes"))
        )
    counts = {"joins": len(ends), "right": 0, "wrong": 0, "inside": 0, "inside_wrong": 0}
    for symbol, sample in certain_cuts(
        text_symbols(clip.text, clip.language, "phonemes"), clip.samples, rate_hz
    ):
        index = sum(end < symbol for end in ends)
        if symbol in ends:
            middle = (clip.spans[index][1] + clip.spans[index + 1][0]) // 2
            speech = speech_seconds(clip.samples, sample, middle, rate_hz)
            counts["right" if speech <= TOLERATED_SPEECH_SECONDS else "wrong"] += 1
        else:
            first, last = clip.spans[index]
            counts["inside" if first < sample < last else "inside_wrong"] += 1
    return counts


def can_be_split(clip: Joined, template: Utterance, config: XTTSConfig) -> bool:
    frames = int(LONGEST_PART * clip.samples.size / config.audio.hop_samples) // 8 * 8
    limited = config.with_(max_text_length=10_000, max_mel_frames=frames, long_clips="split")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "clip.wav"
        write_audio(file, clip.samples, config.audio.sample_rate_hz)
        item = dataclasses.replace(template, text=clip.text, audio_path=file)
        return len(parts_of(item, check_clip(item, limited), limited)) > 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--clips", type=int, default=300)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    config, generator = XTTSConfig(), random.Random(1)
    by_speaker: dict[str, list[Utterance]] = defaultdict(list)
    for item in LJSpeechDataset(options.corpus, validation_fraction=None):
        by_speaker[item.speaker].append(item)
    speakers = [items for items in by_speaker.values() if len(items) > 1]
    total: dict[str, Any] = defaultdict(int)
    for _ in range(options.clips):
        items = generator.choice(speakers)
        count = min(generator.randint(2, 4), len(items))
        first = generator.randrange(len(items) - count + 1)
        clip = join(items[first : first + count], config, generator)
        for name, number in judge(clip, config.audio.sample_rate_hz).items():
            total[name] += number
        total["clips"] += 1
        total["split"] += can_be_split(clip, items[first], config)
    cuts = total["right"] + total["wrong"]
    print(f"{total['clips']} long clips, {total['split'] / total['clips']:.1%} could be split")
    print(f"{total['joins']} ends of clips, {cuts / total['joins']:.1%} cut there")
    print(f"{total['right'] / max(1, cuts):.1%} of these {cuts} cuts are right")
    print(f"{total['inside']} cuts inside a clip, {total['inside_wrong']} more in another clip")
    if options.json:
        options.json.write_text(json.dumps(total, indent=1))


if __name__ == "__main__":
    main()
