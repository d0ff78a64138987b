"""From recordings to a corpus: cut, compare voices, transcribe, judge, write."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from myxtts.audio.files import FloatArray
from myxtts.audio.pretrained import bare_words
from myxtts.collect.corpus import (
    DECISION_LINE,
    DROPPED,
    FIGURES,
    KEPT,
    RECORDED,
    REVIEW,
    CorpusFolder,
    read_lines,
    tidy,
)
from myxtts.collect.cutting import CutSettings, cut_sources, is_unread
from myxtts.collect.quality import duplicates
from myxtts.collect.sources import Found, find_sources
from myxtts.collect.texts import (
    Listener,
    Script,
    Transcriber,
    find_in_script,
    measure_agreement,
    transcribe_clips,
)
from myxtts.collect.voices import (
    ClipVoice,
    VoiceEncoder,
    embed_clips,
    embed_file,
    group_voices,
    is_a_voice,
    likeness_of_parts,
    middle_of,
    nearest_voice,
)
from myxtts.devices.doctor import install_command
from myxtts.errors import DataError, plural_count
from myxtts.files import remove_temporaries
from myxtts.text.languages import other_script
from myxtts.text.markup import read_text
from myxtts.text.tokenizer import is_spoken, text_symbols

# Phonemes per second of speech, beside the median of all clips.
_SLOWEST, _FASTEST = 0.62, 1.6
_LEAST_CLIPS_FOR_A_MEDIAN = 8
_LEAST_AGREEMENT = 1.0
_LEAST_AGREEMENT_WITH_SCRIPT = 0.6
# Similarity of a clip's parts to its voice, below that of the median clip. Where others are heard,
# that they speak at the same time is likelier.
_MOST_BELOW_USUAL = 0.07
_MOST_BELOW_USUAL_WITH_OTHERS = 0.05
# Agreement of text and sound, beside the median of all clips; a model that finds fewer texts in
# their sound cannot judge.
_LEAST_OF_USUAL_AGREEMENT = 0.5
_LEAST_USUAL_AGREEMENT = 0.15
# A recogniser that is lost repeats itself.
_MOST_REPEATS = 4


@dataclass
class Clip:
    """A clip of the corpus, and what became of it."""

    id: str
    source: str
    start_seconds: float
    seconds: float
    speech_seconds: float
    figures: dict[str, float]
    speaker: str
    language: str
    text: str = ""
    second_text: str | None = None
    status: str = KEPT
    reason: str = ""
    detail: str = ""

    def put(self, status: str, reason: str, detail: str = "") -> None:
        self.status, self.reason, self.detail = status, reason, detail


def choose_voices(
    clips: Sequence[Clip],
    voices: Mapping[str, ClipVoice],
    wanted: FloatArray | None,
    *,
    all_speakers: bool,
) -> list[str]:
    """Drops the clips of other voices, or names each voice; returns what to tell of it."""
    heard = [clip for clip in clips if clip.id in voices]
    for clip in clips:
        if clip.id not in voices:
            clip.put(REVIEW, "no voice found")
    if not heard:
        return []
    every = np.stack([voices[clip.id].vector for clip in heard])
    groups = group_voices(every, [clip.seconds for clip in heard])
    shares = ", ".join(
        f"{sum(heard[index].seconds for index in group) / 60:.1f}" for group in groups[:10]
    )
    with_others = len(groups) > 1
    told = f"Voices: {len(groups)}, minutes of each: {shares}"
    if all_speakers:
        for number, group in enumerate(groups, 1):
            for index in group:
                heard[index].speaker += f"-{number}"
                if not is_a_voice(group):
                    heard[index].put(REVIEW, "voice of few clips")
            _put_mixed_aside([heard[index] for index in group], voices, with_others=with_others)
        return [told]
    kept = 0 if wanted is None else nearest_voice(groups, every, wanted)
    mean = every[groups[kept]].mean(axis=0)
    for number, group in enumerate(groups):
        for index in group if number != kept else ():
            alike = float(every[index] @ mean / np.linalg.norm(mean))
            heard[index].put(DROPPED, "another voice", f"similarity {alike:.2f} to the kept voice")
    _put_mixed_aside([heard[index] for index in groups[kept]], voices, with_others=with_others)
    return [told] if with_others else []


def _put_mixed_aside(
    clips: Sequence[Clip], voices: Mapping[str, ClipVoice], *, with_others: bool
) -> None:
    """Of the clips of one voice, those in which somebody else speaks too."""
    if len(clips) < _LEAST_CLIPS_FOR_A_MEDIAN:
        return
    middle = middle_of(np.stack([voices[clip.id].vector for clip in clips]))
    likeness = {clip.id: likeness_of_parts(voices[clip.id], middle) for clip in clips}
    usual = statistics.median(likeness.values())
    below = _MOST_BELOW_USUAL_WITH_OTHERS if with_others else _MOST_BELOW_USUAL
    for clip in clips:
        if likeness[clip.id] < usual - below:
            detail = f"similarity {likeness[clip.id]:.2f} of its parts, {usual:.2f} is usual here"
            clip.put(REVIEW, "more than one voice", detail)


def judge_agreement(clips: Sequence[Clip], agreements: Mapping[str, float]) -> list[str]:
    """Puts aside the clips whose text is hardly found in their sound; returns what to tell."""
    if len(agreements) < _LEAST_CLIPS_FOR_A_MEDIAN:
        return []
    usual = statistics.median(agreements.values())
    if usual < _LEAST_USUAL_AGREEMENT:
        return [
            f"The base model does not follow this speech (agreement {usual:.2f}): it was not asked "
            "which texts are wrong"
        ]
    for clip in clips:
        found = agreements.get(clip.id, usual)
        if found < _LEAST_OF_USUAL_AGREEMENT * usual:
            detail = f"agreement {found:.2f} by the base model, {usual:.2f} is usual here"
            clip.put(REVIEW, "text and sound disagree", detail)
    return []


def take_texts_from(script: Script, clips: Sequence[Clip], language: str) -> None:
    """The script wins over the recogniser, where the two are of the same words.

    Clips that are not kept stay as they are; they tell where the others begin and end.
    """
    by_source: dict[str, list[Clip]] = {}
    for clip in clips:
        by_source.setdefault(clip.source, []).append(clip)
    for same in by_source.values():
        same.sort(key=lambda clip: clip.start_seconds)
        words = [bare_words(clip.text, language).split() for clip in same]
        for clip, place in zip(same, find_in_script(words, script), strict=True):
            if clip.status != KEPT:
                continue
            clip.second_text = None
            if place is None or place.agreement < _LEAST_AGREEMENT_WITH_SCRIPT:
                found = "" if place is None else f"{place.agreement:.0%} of the words agree"
                clip.put(REVIEW, "not in the script", found)
                continue
            clip.text = tidy(place.text)
            if not place.certain_edges:
                clip.put(REVIEW, "first or last word uncertain", "the script has more words here")


def judge_texts(clips: Sequence[Clip], language: str) -> None:
    """Puts aside the clips whose text may be wrong."""
    rates: dict[str, float] = {}
    for clip in clips:
        doubt = _doubt_of_text(clip, language)
        if doubt is not None:
            clip.put(REVIEW, *doubt)
            continue
        rates[clip.id] = _spoken_symbols(clip.text, language) / max(clip.speech_seconds, 0.1)
    if len(rates) < _LEAST_CLIPS_FOR_A_MEDIAN:
        return
    usual = statistics.median(rates.values())
    for clip in clips:
        rate = rates.get(clip.id)
        if rate is not None and not _SLOWEST * usual <= rate <= _FASTEST * usual:
            detail = f"{rate:.1f} phonemes per second of speech, {usual:.1f} is usual here"
            clip.put(REVIEW, "text and duration disagree", detail)


def _doubt_of_text(clip: Clip, language: str) -> tuple[str, str] | None:
    words = bare_words(clip.text, language).split()
    if not words:
        return "no words recognised", ""
    if other_script(clip.text, language) is not None:
        return "text in another script", ""
    try:
        if not _spoken_symbols(clip.text, language):
            return "no words recognised", ""
    except DataError as error:
        return "no pronunciation", str(error)
    if _repeats(words) >= _MOST_REPEATS:
        return "words repeated", "the recogniser may have been lost"
    if clip.second_text is not None:
        again = bare_words(clip.second_text, language).split()
        agreement = difflib.SequenceMatcher(None, words, again, autojunk=False).ratio()
        if agreement < _LEAST_AGREEMENT:
            return "uncertain words", f"two hearings agree to {agreement:.0%}: {clip.second_text}"
    return None


def _spoken_symbols(text: str, language: str) -> int:
    return sum(map(is_spoken, text_symbols(text, language, "phonemes")))


def _repeats(words: Sequence[str]) -> int:
    """Length of the longest run of one word."""
    longest = run = 1
    for before, word in itertools.pairwise(words):
        run = run + 1 if word == before else 1
        longest = max(longest, run)
    return longest


def count_reasons(clips: Iterable[Clip], status: str) -> Counter[str]:
    return Counter(clip.reason for clip in clips if clip.status == status)


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
    """As they are recorded, see `collect.corpus`."""
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
        if importlib.util.find_spec("rapidfuzz") is None:
            raise DataError(f"--script needs rapidfuzz: {install_command('collect')}")
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
