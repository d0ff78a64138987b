"""From recordings to a corpus: cut, compare, transcribe, judge, write."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import soundfile

from myxtts.collecting.cut_sources import CutSettings, cut_sources, is_unread
from myxtts.collecting.fingerprints import duplicates
from myxtts.collecting.judging import (
    DROPPED,
    KEPT,
    REVIEW,
    Clip,
    choose_voices,
    count_reasons,
    judge_agreement,
    judge_texts,
    take_texts_from,
)
from myxtts.collecting.manifest import Row, write_rows
from myxtts.collecting.prompts import RECORDED
from myxtts.collecting.records import DECISION_LINE, FIGURES, CorpusFolder, read_lines
from myxtts.collecting.script_alignment import Script
from myxtts.collecting.sources import Found, find_sources
from myxtts.collecting.text_agreement import Listener, measure_agreement
from myxtts.collecting.transcribers import Transcriber, transcribe_clips
from myxtts.collecting.voices import VoiceEncoder, embed_clips, embed_file
from myxtts.errors import DataError
from myxtts.text.markup import read_text
from myxtts.whole_files import remove_temporaries, write_whole_file
from myxtts.wording import plural_count

_DUPLICATE = "duplicate"
# A living room has about this; the voice is blurred beyond it.
_LONG_REVERBERATION = 0.45


@dataclass(frozen=True)
class Wishes:
    """What the user asked for."""

    language: str = "en"
    speaker: str = "speaker"
    cutting: CutSettings = field(default_factory=CutSettings)
    twice: bool = False
    """Hear every clip twice, and put aside what differs."""
    workers: int | None = None
    speaker_wav: Path | None = None
    """Of several voices, the one nearest to this is kept; otherwise the one with most speech."""
    all_speakers: bool = False
    """Each voice becomes a speaker."""
    script: Path | None = None
    """A text that was read; the clips get their texts from it."""


@dataclass
class Outcome:
    folder: Path
    sources: list[dict[str, Any]]
    """As they are recorded, see `collecting.records`."""
    clips: list[Clip]
    other_files: int = 0
    transcriber: str | None = None
    notes: list[str] = field(default_factory=list)

    def of(self, status: str) -> list[Clip]:
        return [clip for clip in self.clips if clip.status == status]

    def seconds(self, status: str) -> float:
        return sum(clip.seconds for clip in self.of(status))

    @property
    def source_seconds(self) -> float:
        return sum(source["seconds"] for source in self.sources)

    @property
    def speech_seconds(self) -> float:
        return sum(source["speech_seconds"] for source in self.sources)

    @property
    def problems(self) -> list[str]:
        return [source["problem"] for source in self.sources if source["problem"]]

    @property
    def unread(self) -> int:
        """Recordings of which nothing could be read."""
        return sum(map(is_unread, self.sources))

    def dropped(self) -> dict[str, tuple[int, float]]:
        """By reason: how many pieces, and how many seconds; what became no clip counts too."""
        pieces: Counter[str] = Counter(count_reasons(self.clips, DROPPED))
        seconds: dict[str, float] = {}
        for clip in self.of(DROPPED):
            seconds[clip.reason] = seconds.get(clip.reason, 0.0) + clip.seconds
        for source in self.sources:
            for piece in source["dropped"]:
                pieces[piece["reason"]] += 1
                seconds[piece["reason"]] = seconds.get(piece["reason"], 0.0) + piece["seconds"]
        return {reason: (count, seconds[reason]) for reason, count in pieces.most_common()}


# stage, what is counted, done, total
OnProgress = Callable[[str, str, int, int], None]


def look(
    places: Sequence[Path],
    out: Path,
    wishes: Wishes,
    on_progress: Callable[[int], None] = lambda files: None,
) -> Found:
    """The recordings; mistakes in names and in the script are found before anything slow."""
    found = find_sources(places, out, on_progress)
    if wishes.script is not None:
        read_text(wishes.script)
    CorpusFolder(out).prepare(wishes.cutting.as_flags())
    return found


def collect(
    found: Found,
    out: Path,
    wishes: Wishes,
    transcriber: Transcriber | None = None,
    encoder: VoiceEncoder | None = None,
    listener: Listener | None = None,
    on_progress: OnProgress = lambda stage, unit, done, total: None,
) -> Outcome:
    """Without a transcriber every clip is put aside for review; without an encoder voices are not
    compared, and without a listener texts are not compared with the sound.
    """
    script = None
    if wishes.script is not None:
        script = Script.read(read_text(wishes.script), wishes.language)
    wanted_voice = None
    if encoder is not None and wishes.speaker_wav is not None:
        wanted_voice = embed_file(wishes.speaker_wav, encoder)
    folder = CorpusFolder(out)
    remove_temporaries(folder.clips)
    lines = cut_sources(
        found.sources,
        folder,
        wishes.cutting,
        wishes.workers,
        lambda unit, done, total: on_progress("Cutting", unit, done, total),
    )
    outcome = Outcome(out, lines, _clips(lines, wishes), found.other_files)
    outcome.notes += _rooms(lines)
    _drop_duplicates(outcome)
    if encoder is not None:
        voices = embed_clips(
            [clip.id for clip in outcome.of(KEPT)],
            folder,
            encoder,
            lambda done, total: on_progress("Comparing voices", "clip", done, total),
        )
        outcome.notes += choose_voices(
            outcome.of(KEPT), voices, wanted_voice, all_speakers=wishes.all_speakers
        )
    if transcriber is None:
        for clip in outcome.of(KEPT):
            clip.put(REVIEW, "no transcript")
    else:
        outcome.transcriber = transcriber.name
        _add_texts(outcome, folder, wishes, transcriber, script, on_progress)
        if listener is not None:
            agreements = measure_agreement(
                {clip.id: clip.text for clip in outcome.of(KEPT)},
                folder,
                listener,
                lambda done, total: on_progress(
                    "Comparing texts with the sound", "clip", done, total
                ),
            )
            outcome.notes += judge_agreement(outcome.of(KEPT), agreements)
    _apply_decisions(outcome, folder)
    return outcome


def _clips(lines: Sequence[dict[str, Any]], wishes: Wishes) -> list[Clip]:
    return [
        Clip(
            id=clip["id"],
            source=line["path"],
            start_seconds=clip["start"],
            seconds=clip["seconds"],
            speech_seconds=clip["speech_seconds"],
            figures={name: clip[name] for name in FIGURES},
            speaker=wishes.speaker,
            language=wishes.language,
        )
        for line in lines
        for clip in line["clips"]
    ]


def _apply_decisions(outcome: Outcome, folder: CorpusFolder) -> None:
    """What somebody decided in `myxtts review` wins over everything that was measured."""
    clips = {clip.id: clip for clip in outcome.clips}
    for line in read_lines(folder.decisions, DECISION_LINE):
        if line["id"] not in clips:
            added = _added_in_review(line, folder, clips)
            if added is None:
                continue
            clips[added.id] = added
            outcome.clips.append(added)
        clip = clips[line["id"]]
        clip.text, clip.speaker = line["text"], line["speaker"]
        clip.put(line["status"], "" if line["status"] == KEPT else "decided in review")


def _added_in_review(
    line: dict[str, Any], folder: CorpusFolder, clips: dict[str, Clip]
) -> Clip | None:
    """A part of a clip, or a sentence that was recorded there."""
    file = folder.clip(line["id"])
    parent = None if line["part_of"] is None else clips.get(line["part_of"])
    is_recorded = line["part_of"] is None and line["id"].startswith(RECORDED)
    if not file.is_file() or (parent is None and not is_recorded):
        return None  # of a recording that has changed since
    seconds = soundfile.info(file).duration
    if parent is not None:
        return dataclasses.replace(parent, id=line["id"], seconds=seconds)
    figures = dict.fromkeys(FIGURES, 0.0)
    return Clip(
        line["id"], RECORDED, 0.0, seconds, seconds, figures, line["speaker"], line["language"]
    )


def _rooms(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Recordings in which the room is heard: a model learns it with the voice."""
    times = [line["reverberation_seconds"] for line in lines]
    large = [seconds for seconds in times if seconds is not None and seconds > _LONG_REVERBERATION]
    if not large:
        return []
    return [
        f"Reverberation in {plural_count(len(large), 'recording')}, up to {max(large):.1f} s: "
        "record nearer to the microphone or in a room with more furniture"
    ]


def _drop_duplicates(outcome: Outcome) -> None:
    prints = [clip["fingerprint"] for line in outcome.sources for clip in line["clips"]]
    lengths = [clip.seconds for clip in outcome.clips]
    for index, first in duplicates(prints, lengths).items():
        outcome.clips[index].put(DROPPED, _DUPLICATE, f"same sound as {outcome.clips[first].id}")


def _add_texts(
    outcome: Outcome,
    folder: CorpusFolder,
    wishes: Wishes,
    transcriber: Transcriber,
    script: Script | None,
    on_progress: OnProgress,
) -> None:
    wanted = outcome.of(KEPT)
    if script is not None:
        # It goes on in clips that were put aside: their words tell where the others begin and end.
        wanted += [
            clip for clip in outcome.clips if clip.status != KEPT and clip.reason != _DUPLICATE
        ]
    heard = transcribe_clips(
        [clip.id for clip in wanted],
        folder,
        transcriber,
        twice=wishes.twice,
        on_progress=lambda done, total: on_progress("Transcribing", "clip", done, total),
    )
    for clip in wanted:
        if clip.id in heard.problems and clip.status == KEPT:
            clip.put(REVIEW, "no transcript", heard.problems[clip.id])
        clip.text = heard.texts.get(clip.id, "")
        clip.second_text = heard.seconds.get(clip.id) if wishes.twice else None
    if script is not None:
        take_texts_from(script, wanted, wishes.language)
    judge_texts(outcome.of(KEPT), wishes.language)


def write_corpus(outcome: Outcome, page: str) -> None:
    """The files of the corpus, each whole or not at all; `metadata.csv` last."""
    folder = CorpusFolder(outcome.folder)
    try:
        write_whole_file(folder.report, json.dumps(as_json(outcome), indent=1) + "\n")
        write_whole_file(folder.page, page)
    except OSError as error:
        raise DataError(f"{outcome.folder}: cannot be written ({error.strerror})") from None
    write_rows(folder, *([_row(clip) for clip in outcome.of(status)] for status in (KEPT, REVIEW)))


def _row(clip: Clip) -> Row:
    reason = ": ".join(filter(None, (clip.reason, clip.detail)))
    return Row(clip.id, clip.text, clip.speaker, clip.language, reason)


def as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "folder": str(outcome.folder),
        "recordings": len(outcome.sources),
        "other_files": outcome.other_files,
        "seconds": round(outcome.source_seconds, 1),
        "speech_seconds": round(outcome.speech_seconds, 1),
        "transcriber": outcome.transcriber,
        "kept": {"clips": len(outcome.of(KEPT)), "seconds": round(outcome.seconds(KEPT), 1)},
        "review": {
            "clips": len(outcome.of(REVIEW)),
            "seconds": round(outcome.seconds(REVIEW), 1),
            "reasons": dict(count_reasons(outcome.clips, REVIEW)),
        },
        "dropped": {
            reason: {"pieces": pieces, "seconds": round(seconds, 1)}
            for reason, (pieces, seconds) in outcome.dropped().items()
        },
        "problems": outcome.problems,
        "notes": outcome.notes,
    }
