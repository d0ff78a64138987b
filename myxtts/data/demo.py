"""The demo corpus: sentences written for this project, spoken by espeak-ng.

It lets users try everything right away on any machine. Its voices are synthetic, clear and even,
so they do not show how a model of human voices will sound.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from myxtts.data.workers import map_in_workers
from myxtts.errors import DataError
from myxtts.text import espeak
from myxtts.text.languages import REGISTRY, find_language, parse_tag
from myxtts.whole_files import whole_folder
from myxtts.wording import plural

DEFAULT_UTTERANCES = 1_000
DEFAULT_SPEAKERS = 4
WORDS_PER_MINUTE = 150
# Variants of espeak-ng, most intelligible first, male and female alternating.
_VARIANTS = (
    "rob",
    "f2",
    "m3",
    "belinda",
    "adam",
    "linda",
    "victor",
    "steph",
    "m8",
    "f4",
    "pablo",
    "steph3",
)
MAX_SPEAKERS = len(_VARIANTS)
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
    """Sentences for training and for evaluation, without overlap."""
    every = find_language(language).demo_sentences()
    held_out = round(len(every) * _HELD_OUT_SHARE)
    return every[:-held_out], every[-held_out:]


def plan_lines(
    utterances: int, languages: tuple[str, ...], speakers: int, seed: int
) -> tuple[list[Line], list[Line]]:
    """Training and evaluation clips: pairs of voice and sentence, drawn without repetition."""
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
        for_training, for_evaluation = sentences(language)
        train += _pair(for_training, 1, voices, language)
        held_out += _pair(for_evaluation, 1 + len(for_training), voices, language)
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
    """Synthesizes the corpus into `folder` and returns its length in seconds.

    It is written to a temporary folder and renamed, so a folder that exists is complete.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists and is not empty; choose another folder or remove it")
    train, held_out = plan_lines(utterances, languages, speakers, seed)
    folder = folder.resolve()
    try:
        with whole_folder(folder) as part:
            (part / "wavs").mkdir()
            seconds = _speak_all([*train, *held_out], part / "wavs", on_progress)
            _write_metadata(part / "metadata_train.csv", train)
            _write_metadata(part / "metadata_eval.csv", held_out)
            part.chmod(0o755)
            if folder.exists():
                folder.rmdir()
    except soundfile.SoundFileError as error:
        raise DataError(f"{folder}: cannot be written ({error})") from None
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from None
    return seconds


def _speak_all(lines: list[Line], folder: Path, on_progress: Callable[[int, int], None]) -> float:
    """Synthesizes the lines in order in one new process and returns their length in seconds.

    espeak-ng keeps state between clips, so a clip's samples depend on everything its process has
    spoken: only a new process makes the same corpus from the same seed.
    """
    seconds = 0.0
    speak = functools.partial(_speak_line, folder=folder)
    for done, clip_seconds in enumerate(map_in_workers(speak, lines, 1), 1):
        seconds += clip_seconds
        on_progress(done, len(lines))
    return seconds


def _speak_line(line: Line, folder: Path) -> float:
    voice = f"{find_language(line.language).espeak_voice}+{line.speaker}"
    samples = espeak.speak(line.text, voice, words_per_minute=WORDS_PER_MINUTE)
    soundfile.write(folder / f"{line.id}.wav", samples, espeak.SAMPLE_RATE_HZ)
    return samples.size / espeak.SAMPLE_RATE_HZ


def _pair(texts: list[str], first: int, voices: tuple[str, ...], language: str) -> list[Line]:
    """Every sentence in every voice; `first` is the number of the first sentence."""
    return [
        Line(f"{language}-{number:04d}-{voice}", text, voice, language)
        for number, text in enumerate(texts, first)
        for voice in voices
    ]


def _write_metadata(file: Path, lines: list[Line]) -> None:
    rows = [f"wavs/{line.id}.wav|{line.text}|{line.speaker}|{line.language}" for line in lines]
    header = "audio_file|text|speaker_name|language"
    file.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
