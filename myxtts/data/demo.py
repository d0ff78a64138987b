"""The demo corpus: sentences written for this project, spoken by espeak-ng.

It lets users try everything immediately on any machine. Its voices are synthetic, so they do not
show how a model of human voices will sound.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from myxtts.data.workers import map_in_workers
from myxtts.errors import DataError, plural
from myxtts.files import atomic_folder
from myxtts.text import espeak
from myxtts.text.languages import REGISTRY, find_language, parse_tag

DEFAULT_UTTERANCES = 1_000
DEFAULT_SPEAKERS = 4
WORDS_PER_MINUTE = 150
# Variants of espeak-ng, most intelligible first, male and female alternating.
_VARIANTS = (
    *("rob", "f2", "m3", "belinda", "adam", "linda"),
    *("victor", "steph", "m8", "f4", "pablo", "steph3"),
)
MAX_SPEAKERS = len(_VARIANTS)
_NATURAL = Path(__file__).with_name("natural")
# The last sentences of each language are held out.
_HELD_OUT_SHARE = 0.1


@dataclass(frozen=True)
class Line:
    """One clip to synthesize."""

    id: str
    text: str
    speaker: str
    language: str


def sentences(language: str) -> tuple[list[str], list[str]]:
    """Return sentences for training and for evaluation, without overlap."""
    every = find_language(language).demo_sentences()
    held_out = round(len(every) * _HELD_OUT_SHARE)
    return every[:-held_out], every[-held_out:]


def plan_lines(
    utterances: int, languages: tuple[str, ...], speakers: int, seed: int
) -> tuple[list[Line], list[Line]]:
    """Return training and evaluation clips: distinct pairs of voice and sentence."""
    languages = tuple(dict.fromkeys(parse_tag(tag, "--languages") for tag in languages))
    for language in languages:
        if not find_language(language).demo_sentences():
            raise DataError(f"--languages: found '{language}', allowed: {', '.join(REGISTRY)}")
    if not 0 <= seed < 2**31:
        raise DataError(f"--seed: found {seed}, allowed: 0 to {2**31 - 1}")
    if not 1 <= speakers <= MAX_SPEAKERS:
        raise DataError(f"--speakers: found {speakers}, allowed: 1 to {MAX_SPEAKERS}")
    generator = np.random.Generator(np.random.Philox(seed))
    voices = _VARIANTS[:speakers]
    train: list[Line] = []
    held_out: list[Line] = []
    for language in languages:
        numbers = itertools.count(1)
        for texts, lines in zip(sentences(language), (train, held_out), strict=True):
            # Every sentence in every voice.
            for text, number in zip(texts, numbers, strict=False):
                lines += [
                    Line(f"{language}-{number:04d}-{voice}", text, voice, language)
                    for voice in voices
                ]
    if not 1 <= utterances <= len(train):
        raise DataError(
            f"--utterances: found {utterances}, allowed: 1 to {len(train)} with {speakers} "
            f"{plural(speakers, 'speaker')} and {plural(len(languages), 'language')} "
            f"{','.join(languages)}"
        )
    eval_count = min(len(held_out), max(speakers * len(languages), round(utterances * 0.06)))
    return (
        [train[index] for index in generator.permutation(len(train))[:utterances]],
        [held_out[index] for index in generator.permutation(len(held_out))[:eval_count]],
    )


def make_demo_corpus(
    folder: Path,
    *,
    utterances: int = DEFAULT_UTTERANCES,
    languages: tuple[str, ...] = ("en",),
    speakers: int = DEFAULT_SPEAKERS,
    seed: int = 0,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> float:
    """Synthesize the corpus into `folder` and return its length in seconds.

    It is written to a temporary folder and renamed, so a folder that exists is complete.
    """
    _require_new(folder)
    train, held_out = plan_lines(utterances, languages, speakers, seed)
    folder = folder.resolve()
    try:
        with atomic_folder(folder) as part:
            (part / "wavs").mkdir()
            # espeak-ng keeps state between clips, so a clip's samples depend on everything its
            # process has spoken. Only one new process makes the same corpus from the same seed.
            speak = functools.partial(_speak_line, folder=part / "wavs")
            lines = [*train, *held_out]
            seconds = 0.0
            for done, clip_seconds in enumerate(map_in_workers(speak, lines, 1), 1):
                seconds += clip_seconds
                on_progress(done, len(lines))
            for name, subset in (("train", train), ("eval", held_out)):
                rows = [
                    f"wavs/{line.id}.wav|{line.text}|{line.speaker}|{line.language}"
                    for line in subset
                ]
                content = "\n".join(["audio_file|text|speaker_name|language", *rows]) + "\n"
                (part / f"metadata_{name}.csv").write_text(content, encoding="utf-8")
            part.chmod(0o755)
            if folder.exists():
                folder.rmdir()
    except soundfile.SoundFileError as error:
        raise DataError(f"{folder}: cannot be written ({error})") from None
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from None
    return seconds


def copy_natural_corpus(folder: Path) -> None:
    """Copy the included minutes of one human voice into a new or empty folder."""
    _require_new(folder)
    try:
        with atomic_folder(folder.resolve()) as part:
            for file in sorted(_NATURAL.rglob("*")):
                target = part / file.relative_to(_NATURAL)
                if file.is_dir():
                    target.mkdir()
                else:
                    target.write_bytes(file.read_bytes())
            part.chmod(0o755)
            if folder.exists():
                folder.rmdir()
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from None


def _require_new(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists and is not empty; choose another folder or remove it")


def _speak_line(line: Line, folder: Path) -> float:
    voice = f"{find_language(line.language).espeak_voice}+{line.speaker}"
    samples = espeak.speak(line.text, voice, words_per_minute=WORDS_PER_MINUTE)
    soundfile.write(folder / f"{line.id}.wav", samples, espeak.SAMPLE_RATE_HZ)
    return samples.size / espeak.SAMPLE_RATE_HZ
