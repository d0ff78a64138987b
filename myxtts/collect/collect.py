"""From recordings to a corpus: cut, compare voices, transcribe, check, write."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import json
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from myxtts.audio.files import FloatArray
from myxtts.audio.pretrained import bare_words
from myxtts.collect.activity import Lengths, duplicates
from myxtts.collect.folder import (
    DECISION_LINE,
    DROPPED,
    KEPT,
    RECORDED,
    REVIEW,
    CorpusFolder,
    Row,
    read_lines,
    tidy,
)
from myxtts.collect.recordings import Source, cut_sources, find_sources, is_unread
from myxtts.collect.texts import Script, Transcriber, find_in_script, transcribe_clips
from myxtts.collect.voices import (
    ClipVoice,
    VoiceEncoder,
    embed_clips,
    embed_file,
    group_voices,
    likeness_of_parts,
    middle_of,
    nearest_voice,
)
from myxtts.devices.doctor import install_command
from myxtts.errors import DataError, plural_count
from myxtts.files import remove_temporaries, write_file
from myxtts.text.languages import other_script
from myxtts.text.markup import read_text
from myxtts.text.tokenizer import is_spoken, text_symbols

# Bounds on the speaking rate, relative to the median of all clips.
_MIN_RATE, _MAX_RATE = 0.62, 1.6
_MIN_CLIPS_FOR_A_MEDIAN = 8
_MIN_AGREEMENT_WITH_SCRIPT = 0.6
# Maximum drop in similarity of a clip's parts to its voice, relative to the median clip. It is
# lower if the recordings contain other voices.
_MAX_BELOW_USUAL = 0.07
_MAX_BELOW_USUAL_WITH_OTHERS = 0.05
_MIN_CLIPS_OF_A_VOICE = 3
# Lost ASR models repeat themselves.
_MAX_REPEATS = 3
_DUPLICATE = "duplicate"

# stage, what is counted, done, total
OnProgress = Callable[[str, str, int, int], None]


@dataclass(frozen=True)
class Options:
    language: str = "en"
    speaker: str = "speaker"
    lengths: Lengths = field(default_factory=Lengths)
    min_snr_db: float = 10.0
    workers: int | None = None
    speaker_wav: Path | None = None
    """Keep the voice closest to this one; by default the voice with the most speech."""
    all_speakers: bool = False
    """Keep each voice as a separate speaker."""
    script: Path | None = None
    """Text that was read, to take the transcripts from."""

    def prepare(self, folder: CorpusFolder) -> None:
        """Create the folder. Its settings have the names of flags."""
        folder.prepare(
            {
                "shortest": self.lengths.min_seconds,
                "longest": self.lengths.max_seconds,
                "least-snr": self.min_snr_db,
            }
        )


@dataclass
class Clip:
    id: str
    source: str
    start_seconds: float
    seconds: float
    speech_seconds: float
    speaker: str
    language: str
    text: str = ""
    status: str = KEPT
    reason: str = ""
    detail: str = ""

    def put(self, status: str, reason: str, detail: str = "") -> None:
        self.status, self.reason, self.detail = status, reason, detail


@dataclass
class Outcome:
    folder: Path
    sources: list[dict[str, Any]]
    """Lines as in `CorpusFolder.sources`."""
    clips: list[Clip]
    transcriber: str | None = None
    notes: list[str] = field(default_factory=list)

    def of(self, status: str) -> list[Clip]:
        return [clip for clip in self.clips if clip.status == status]

    def seconds(self, status: str) -> float:
        return sum(clip.seconds for clip in self.of(status))

    def total(self, name: str) -> float:
        return sum(source[name] for source in self.sources)

    @property
    def problems(self) -> list[str]:
        return [source["problem"] for source in self.sources if source["problem"]]

    @property
    def unread(self) -> int:
        """Number of recordings that could not be read."""
        return sum(map(is_unread, self.sources))

    def reasons(self, status: str) -> dict[str, tuple[int, float]]:
        """Return pieces and seconds by reason; dropped speech that became no clip counts too."""
        found = [(clip.reason, clip.seconds) for clip in self.of(status)]
        if status == DROPPED:
            found += [
                (one["reason"], one["seconds"]) for line in self.sources for one in line["dropped"]
            ]
        counts = Counter(reason for reason, _ in found)
        return {
            reason: (count, sum(seconds for name, seconds in found if name == reason))
            for reason, count in counts.most_common()
        }

    def summary(self) -> list[str]:
        unread = f" ({self.unread:,} could not be read)" if self.unread else ""
        lines = [
            f"{plural_count(len(self.sources), 'recording')}{unread}, "
            f"{self.total('seconds') / 60:.1f} minutes, "
            f"{self.total('speech_seconds') / 60:.1f} minutes of speech",
            f"To train on: {plural_count(len(self.of(KEPT)), 'clip')}, "
            f"{self.seconds(KEPT) / 60:.1f} minutes",
        ]
        for name, status in (("To review", REVIEW), ("Dropped", DROPPED)):
            for reason, (count, seconds) in self.reasons(status).items():
                lines.append(f"{name}: {count:,}, {seconds / 60:.1f} minutes: {reason}")
        return [*lines, *self.notes]

    def as_json(self) -> dict[str, Any]:
        review, dropped = self.reasons(REVIEW), self.reasons(DROPPED)
        return {
            "folder": str(self.folder),
            "recordings": len(self.sources),
            "seconds": round(self.total("seconds"), 1),
            "speech_seconds": round(self.total("speech_seconds"), 1),
            "transcriber": self.transcriber,
            "kept": {"clips": len(self.of(KEPT)), "seconds": round(self.seconds(KEPT), 1)},
            "review": {
                "clips": len(self.of(REVIEW)),
                "seconds": round(self.seconds(REVIEW), 1),
                "reasons": {reason: count for reason, (count, _) in review.items()},
            },
            "dropped": {
                reason: {"pieces": pieces, "seconds": round(seconds, 1)}
                for reason, (pieces, seconds) in dropped.items()
            },
            "problems": self.problems,
            "notes": self.notes,
        }

    def write(self) -> None:
        """Write the files of the corpus, each atomically, `metadata.csv` last."""
        folder = CorpusFolder(self.folder)
        try:
            write_file(folder.report, json.dumps(self.as_json(), indent=1) + "\n")
        except OSError as error:
            raise DataError(f"{self.folder}: cannot be written ({error.strerror})") from None
        folder.write_rows(*([_row(clip) for clip in self.of(status)] for status in (KEPT, REVIEW)))


def _row(clip: Clip) -> Row:
    reason = ": ".join(filter(None, (clip.reason, clip.detail)))
    return Row(clip.id, clip.text, clip.speaker, clip.language, reason)


def prepare(places: Sequence[Path], out: Path, options: Options) -> list[Source]:
    """Check names and the script before anything slow, and return the recordings."""
    sources = find_sources(places, out)
    if options.script is not None:
        if importlib.util.find_spec("rapidfuzz") is None:
            raise DataError(f"--script needs rapidfuzz: {install_command('collect')}")
        read_text(options.script)
    options.prepare(CorpusFolder(out))
    return sources


def collect(
    sources: Sequence[Source],
    out: Path,
    options: Options,
    transcriber: Transcriber | None = None,
    encoder: VoiceEncoder | None = None,
    on_progress: OnProgress = lambda stage, unit, done, total: None,
) -> Outcome:
    """Collect a corpus.

    Without a transcriber all clips are set aside for review. Without an encoder voices are not
    compared.
    """
    script = wanted_voice = None
    if options.script is not None:
        script = Script.read(read_text(options.script), options.language)
    if encoder is not None and options.speaker_wav is not None:
        wanted_voice = embed_file(options.speaker_wav, encoder)
    folder = CorpusFolder(out)
    remove_temporaries(folder.clips)

    def count(stage: str, unit: str) -> Callable[[int, int], None]:
        return lambda done, total: on_progress(stage, unit, done, total)

    lines = cut_sources(
        sources,
        folder,
        options.lengths,
        options.min_snr_db,
        options.workers,
        count("Cutting", "megabyte"),
    )
    cut = [(line["path"], clip) for line in lines for clip in line["clips"]]
    clips = [
        Clip(
            clip["id"],
            path,
            clip["start"],
            clip["seconds"],
            clip["speech_seconds"],
            options.speaker,
            options.language,
        )
        for path, clip in cut
    ]
    outcome = Outcome(out, lines, clips)
    prints = [clip["fingerprint"] for _, clip in cut]
    for index, first in duplicates(prints, [clip.seconds for clip in clips]).items():
        clips[index].put(DROPPED, _DUPLICATE, f"same sound as {clips[first].id}")
    if encoder is not None:
        kept = outcome.of(KEPT)
        ids = [clip.id for clip in kept]
        voices = embed_clips(ids, folder, encoder, count("Comparing voices", "clip"))
        outcome.notes += choose_voices(
            kept, voices, wanted_voice, all_speakers=options.all_speakers
        )
    if transcriber is None:
        for clip in outcome.of(KEPT):
            clip.put(REVIEW, "no transcript")
    else:
        outcome.transcriber = transcriber.name
        wanted = outcome.of(KEPT)
        if script is not None:
            # Words of clips that were set aside show where the others begin and end.
            wanted += [one for one in clips if one.status != KEPT and one.reason != _DUPLICATE]
        texts, problems = transcribe_clips(
            [clip.id for clip in wanted], folder, transcriber, count("Transcribing", "clip")
        )
        for clip in wanted:
            clip.text = texts.get(clip.id, "")
            if clip.id in problems and clip.status == KEPT:
                clip.put(REVIEW, "no transcript", problems[clip.id])
        if script is not None:
            take_texts_from(script, wanted, options.language)
        check_texts(outcome.of(KEPT), options.language)
    _apply_decisions(outcome, folder)
    return outcome


def choose_voices(
    clips: Sequence[Clip],
    voices: Mapping[str, ClipVoice],
    wanted: FloatArray | None,
    *,
    all_speakers: bool,
) -> list[str]:
    """Drop the clips of other voices, or label each voice, and return notes."""
    for clip in clips:
        if clip.id not in voices:
            clip.put(REVIEW, "no voice found")
    clips = [clip for clip in clips if clip.id in voices]
    if not clips:
        return []
    vectors = np.stack([voices[clip.id].vector for clip in clips])
    groups = group_voices(vectors, [clip.seconds for clip in clips])
    with_others = len(groups) > 1
    minutes = ", ".join(
        f"{sum(clips[index].seconds for index in group) / 60:.1f}" for group in groups[:10]
    )
    note = f"Voices: {len(groups)}, minutes of each: {minutes}"
    kept = 0 if wanted is None else nearest_voice(groups, vectors, wanted)
    mean = vectors[groups[kept]].mean(axis=0)
    for number, group in enumerate(groups):
        of_voice = [clips[index] for index in group]
        if all_speakers:
            for clip in of_voice:
                clip.speaker += f"-{number + 1}"
                if len(group) < _MIN_CLIPS_OF_A_VOICE:
                    clip.put(REVIEW, "voice of few clips")
        elif number != kept:
            for index in group:
                alike = float(vectors[index] @ mean / np.linalg.norm(mean))
                detail = f"similarity {alike:.2f} to the kept voice"
                clips[index].put(DROPPED, "another voice", detail)
            continue
        _put_mixed_aside(of_voice, voices, with_others=with_others)
    return [note] if with_others or all_speakers else []


def _put_mixed_aside(
    clips: Sequence[Clip], voices: Mapping[str, ClipVoice], *, with_others: bool
) -> None:
    """Set aside the clips of a voice that contain another speaker."""
    if len(clips) < _MIN_CLIPS_FOR_A_MEDIAN:
        return
    middle = middle_of(np.stack([voices[clip.id].vector for clip in clips]))
    likeness = {clip.id: likeness_of_parts(voices[clip.id], middle) for clip in clips}
    usual = statistics.median(likeness.values())
    below = _MAX_BELOW_USUAL_WITH_OTHERS if with_others else _MAX_BELOW_USUAL
    for clip in clips:
        if likeness[clip.id] < usual - below:
            detail = f"similarity {likeness[clip.id]:.2f} of its parts, {usual:.2f} is usual here"
            clip.put(REVIEW, "more than one voice", detail)


def take_texts_from(script: Script, clips: Sequence[Clip], language: str) -> None:
    """Replace transcripts by the script where both match.

    Dropped clips are not changed; they show where the others begin and end.
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
            if place is None or place.agreement < _MIN_AGREEMENT_WITH_SCRIPT:
                found = "" if place is None else f"{place.agreement:.0%} of the words agree"
                clip.put(REVIEW, "not in the script", found)
                continue
            clip.text = tidy(place.text)
            if not place.certain_edges:
                clip.put(REVIEW, "first or last word uncertain", "the script has more words here")


def check_texts(clips: Sequence[Clip], language: str) -> None:
    """Set aside clips whose text may be wrong."""
    rates: dict[str, float] = {}
    for clip in clips:
        words = bare_words(clip.text, language).split()
        repeats = max((len(list(run)) for _, run in itertools.groupby(words)), default=0)
        if words and other_script(clip.text, language) is not None:
            clip.put(REVIEW, "text in another script")
            continue
        try:
            spoken = sum(map(is_spoken, text_symbols(clip.text, language, "phonemes")))
        except DataError as error:
            clip.put(REVIEW, "no pronunciation", str(error))
            continue
        if not words or not spoken:
            clip.put(REVIEW, "no words recognized")
        elif repeats > _MAX_REPEATS:
            clip.put(REVIEW, "words repeated", "the ASR model may have been lost")
        else:
            rates[clip.id] = spoken / max(clip.speech_seconds, 0.1)
    if len(rates) < _MIN_CLIPS_FOR_A_MEDIAN:
        return
    usual = statistics.median(rates.values())
    for clip in clips:
        rate = rates.get(clip.id)
        if rate is not None and not _MIN_RATE * usual <= rate <= _MAX_RATE * usual:
            detail = f"{rate:.1f} phonemes per second of speech, {usual:.1f} is usual here"
            clip.put(REVIEW, "text and duration disagree", detail)


def _apply_decisions(outcome: Outcome, folder: CorpusFolder) -> None:
    """Apply the decisions of `myxtts review`, which override every measurement."""
    clips = {clip.id: clip for clip in outcome.clips}
    for line in read_lines(folder.decisions, DECISION_LINE):
        clip = clips.get(line["id"])
        if clip is None:  # a part of a clip, or a sentence that was recorded in the browser
            parent = clips.get(line["part_of"])
            is_recorded = line["part_of"] is None and line["id"].startswith(RECORDED)
            file = folder.clip(line["id"])
            if not file.is_file() or (parent is None and not is_recorded):
                continue  # a decision about a recording that has changed
            seconds = soundfile.info(file).duration
            if parent is not None:
                clip = dataclasses.replace(parent, id=line["id"], seconds=seconds)
            else:
                names = line["speaker"], line["language"]
                clip = Clip(line["id"], RECORDED, 0.0, seconds, seconds, *names)
            clips[clip.id] = clip
            outcome.clips.append(clip)
        clip.text, clip.speaker = line["text"], line["speaker"]
        clip.put(line["status"], "" if line["status"] == KEPT else "decided in review")
