"""The fixed test sentences of a run: held-out clips of its corpus, or the lines of a file."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from myxtts.audio.files import clean_recording, read_audio
from myxtts.config.config import AudioConfig, XTTSConfig
from myxtts.data.corpus import CorpusSubset
from myxtts.data.metadata import Utterance
from myxtts.errors import DataError
from myxtts.json_files import read_json

_SHORTEST_CLIP_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Sentence:
    text: str
    language: str
    speaker: str
    reference: Path
    """A clip of the target voice."""
    recording: Path | None = None
    """The speaker's own recording of this sentence."""


def with_corpus(config: XTTSConfig, folder: Path) -> XTTSConfig:
    """The configuration of a run, with another corpus to take held-out sentences from."""
    return config.with_(train_data=str(folder), val_data=None)


def held_out_sentences(
    config: XTTSConfig, languages: Sequence[str], count: int
) -> tuple[Sentence, ...]:
    """Clips that the run was not trained on, alternating speakers; the same clips every time.

    The reference is the speaker's next held-out clip or, for a speaker with only one, a training
    clip.
    """
    items = list(_part(config, "eval"))
    if not items:
        raise DataError(
            f"{_folder(config)}: has no held-out clips; expected metadata_eval.csv, or "
            "data.validation_fraction above 0"
        )
    known = [item for item in items if item.language in languages]
    if not known:
        raise DataError(
            f"{_folder(config)}: its held-out clips are in {', '.join(_languages(items))}, but "
            f"the run speaks {', '.join(languages)}"
        )
    of_speaker = _by_speaker(known)
    alone = {speaker for speaker, clips in of_speaker.items() if len(clips) == 1}
    trained = _by_speaker(item for item in _part(config, "train") if item.speaker in alone)
    sentences = []
    for item in _in_turn(of_speaker, config.audio, count):
        others = of_speaker[item.speaker] if item.speaker not in alone else trained[item.speaker]
        reference = _next_usable(others, item, config.audio)
        if reference is not None:
            sentences.append(
                Sentence(
                    text=item.text,
                    language=item.language,
                    speaker=item.speaker,
                    reference=reference,
                    recording=item.audio_path,
                )
            )
    if not sentences:
        raise DataError(
            f"{_folder(config)}: no speaker of a held-out clip has a second usable clip as voice "
            "reference; expected at least two clips of a speaker"
        )
    return tuple(sentences)


def sentences_of_file(
    file: Path, language: str, references: Sequence[tuple[str, Path]]
) -> tuple[Sentence, ...]:
    """One sentence per line, spoken by the given voices (speaker and clip) in turn."""
    try:
        content = file.read_bytes()
        lines = [line.strip() for line in content.decode("utf-8-sig").splitlines()]
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise DataError(f"{file}: not UTF-8; save the file as UTF-8") from None
    texts = [line for line in lines if line]
    if not texts:
        raise DataError(f"{file}: contains no sentences; expected one per line")
    return tuple(
        Sentence(text=text, language=language, speaker=speaker, reference=reference)
        for text, (speaker, reference) in (
            (text, references[number % len(references)]) for number, text in enumerate(texts)
        )
    )


def save_sentences(sentences: Iterable[Sentence], file: Path) -> None:
    rows = [
        {
            "text": sentence.text,
            "language": sentence.language,
            "speaker": sentence.speaker,
            "reference": str(sentence.reference.resolve()),
            "recording": sentence.recording and str(sentence.recording.resolve()),
        }
        for sentence in sentences
    ]
    file.write_text(json.dumps(rows, ensure_ascii=False, indent=1), encoding="utf-8")


def load_sentences(file: Path) -> tuple[Sentence, ...]:
    rows = read_json(file)
    return tuple(
        Sentence(
            text=row["text"],
            language=row["language"],
            speaker=row["speaker"],
            reference=Path(row["reference"]),
            recording=Path(row["recording"]) if row["recording"] else None,
        )
        for row in rows
    )


def _part(config: XTTSConfig, subset: str) -> Sequence[Utterance]:
    return CorpusSubset.of(config, subset).dataset()


def _folder(config: XTTSConfig) -> Path:
    return CorpusSubset.of(config, "eval").folder


def _languages(items: Iterable[Utterance]) -> list[str]:
    return sorted({item.language for item in items})


def _by_speaker(items: Iterable[Utterance]) -> Mapping[str, list[Utterance]]:
    of_speaker: dict[str, list[Utterance]] = defaultdict(list)
    for item in items:
        of_speaker[item.speaker].append(item)
    return of_speaker


def _in_turn(
    of_speaker: Mapping[str, list[Utterance]], audio: AudioConfig, count: int
) -> list[Utterance]:
    """The first clips of all speakers, then the second ones.

    Unusable clips are skipped; training has left them out and reported them.
    """
    chosen: list[Utterance] = []
    for clips_of_turn in itertools.zip_longest(*of_speaker.values()):
        for clip in clips_of_turn:
            if clip is None or len(chosen) == count:
                continue
            if any(map(str.isalnum, clip.text)) and _usable(clip, audio):
                chosen.append(clip)
    return chosen


def _next_usable(clips: Sequence[Utterance], item: Utterance, audio: AudioConfig) -> Path | None:
    start = clips.index(item) + 1 if item in clips else 0
    others = [*clips[start:], *clips[:start]]
    return next(
        (
            other.audio_path
            for other in others
            if other.audio_path != item.audio_path and _usable(other, audio)
        ),
        None,
    )


def _usable(item: Utterance, audio: AudioConfig) -> bool:
    try:
        clip = clean_recording(read_audio(item.audio_path, audio.sample_rate_hz), audio)
    except DataError:
        return False
    return clip.size >= _SHORTEST_CLIP_SECONDS * audio.sample_rate_hz and bool(clip.any())
