"""What somebody decides about the clips of a collected corpus, saved with each decision.

Decisions are appended to a file of their own and win over whatever `collect` finds when it runs
again. `metadata.csv` and `review.csv` are written anew after each.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.audio.files import read_recording
from myxtts.audio.writing import write_audio
from myxtts.collecting.judging import DROPPED, KEPT, REVIEW
from myxtts.collecting.manifest import Row, read_rows, write_rows
from myxtts.collecting.prompts import Prompt
from myxtts.collecting.prompts import prompts as prompts_of
from myxtts.collecting.records import DECISION_LINE, CorpusFolder, append, read_lines
from myxtts.collecting.takes import check_take
from myxtts.collecting.transcribers import tidy
from myxtts.errors import DataError

STATUSES = (KEPT, REVIEW, DROPPED)
# A shorter part has no sentence in it.
_SHORTEST_PART_SECONDS = 0.3


@dataclass
class Reviewed:
    """A clip as the page shows it."""

    row: Row
    status: str

    def as_json(self) -> dict[str, str]:
        return {
            "id": self.row.id,
            "text": self.row.text,
            "speaker": self.row.speaker,
            "language": self.row.language,
            "reason": self.row.reason,
            "status": self.status,
        }


class Review:
    """The clips of a corpus, and the decisions on them; calls may come from several threads."""

    def __init__(self, folder: Path, language: str = "en", speaker: str = "speaker") -> None:
        """Language and speaker are those of what is recorded on the page."""
        self._folder = CorpusFolder(folder)
        self._language, self._speaker = language, speaker
        self._folder.require_collected()
        self._lock = threading.Lock()
        self._clips: dict[str, Reviewed] = {}
        for status, file in ((REVIEW, self._folder.review), (KEPT, self._folder.metadata)):
            for row in read_rows(file):
                self._clips[row.id] = Reviewed(row, status)
        for line in read_lines(self._folder.decisions, DECISION_LINE):
            if line["status"] == DROPPED:
                self._clips[line["id"]] = Reviewed(_row(line), DROPPED)

    def clips(self) -> list[dict[str, str]]:
        with self._lock:
            return [clip.as_json() for clip in self._clips.values()]

    def sound(self, clip_id: str) -> Path:
        """The wav of a clip that is known; a name from a browser is no path."""
        with self._lock:
            self._known(clip_id)
        return self._folder.clip(clip_id)

    @functools.cached_property
    def _prompts(self) -> dict[str, Prompt]:
        return {prompt.id: prompt for prompt in prompts_of(self._language)}

    def prompts(self) -> list[dict[str, Any]]:
        """Sentences to read; the done ones are clips already."""
        with self._lock:
            return [
                {
                    "id": prompt.id,
                    "text": prompt.text,
                    "covered": prompt.pairs_covered,
                    "done": prompt.id in self._clips and self._clips[prompt.id].status != DROPPED,
                }
                for prompt in self._prompts.values()
            ]

    def record(self, prompt_id: str, wav: bytes, *, even_so: bool = False) -> dict[str, Any]:
        """Keeps a sentence that was read, if nothing is wrong with it or the reader insists."""
        if prompt_id not in self._prompts:
            raise DataError(f"no sentence {prompt_id!r}")
        text = self._prompts[prompt_id].text
        take = check_take(wav, text, self._language)
        answer = {
            "problems": take.problems,
            "level_dbfs": round(take.figures.level_dbfs, 1),
            "snr_db": round(take.figures.snr_db, 1),
            "saved": not take.problems or even_so,
        }
        if answer["saved"]:
            with self._lock:
                file = self._folder.clip(prompt_id)
                write_audio(file, take.samples, take.sample_rate_hz, follow_link=False)
                row = Row(prompt_id, text, self._speaker, self._language, "")
                clip = self._clips[prompt_id] = Reviewed(row, KEPT)
                self._record(clip, KEPT, text)
                self._write()
        return answer

    def decide(self, clip_id: str, status: str, text: str) -> None:
        """Accepted, rejected, or put back; with the text as it is now."""
        if status not in STATUSES:
            raise DataError(f"status: found '{status}', allowed: {', '.join(STATUSES)}")
        text = tidy(text)
        if status == KEPT and not text:
            raise DataError(f"{clip_id}: has no text; expected the words that are spoken")
        with self._lock:
            self._record(self._known(clip_id), status, text)
            self._write()

    def split(self, clip_id: str, at_seconds: float, texts: tuple[str, str]) -> list[str]:
        """Two clips in the place of one; the ids of both. Each is put aside until accepted."""
        with self._lock:
            clip = self._known(clip_id)
            recording = read_recording(self._folder.clip(clip_id))
            rate_hz = recording.sample_rate_hz
            place = round(at_seconds * rate_hz)
            shortest = _SHORTEST_PART_SECONDS * rate_hz
            if not shortest <= place <= recording.samples.size - shortest:
                raise DataError(
                    f"{clip_id}: cannot be split at {at_seconds:.2f} s; expected a place at least "
                    f"{_SHORTEST_PART_SECONDS:g} s from both ends"
                )
            parts = (recording.samples[:place], recording.samples[place:])
            ids = [f"{clip_id}-{name}" for name in ("a", "b")]
            for part_id, samples, text in zip(ids, parts, texts, strict=True):
                write_audio(self._folder.clip(part_id), samples, rate_hz, follow_link=False)
                row = Row(part_id, tidy(text), clip.row.speaker, clip.row.language, "split")
                part = self._clips[part_id] = Reviewed(row, REVIEW)
                self._record(part, REVIEW, row.text, part_of=clip_id)
            self._record(clip, DROPPED, clip.row.text)
            self._write()
        return ids

    def _known(self, clip_id: str) -> Reviewed:
        if clip_id not in self._clips:
            raise DataError(f"no clip {clip_id!r} in {self._folder.folder}")
        return self._clips[clip_id]

    def _record(self, clip: Reviewed, status: str, text: str, part_of: str | None = None) -> None:
        row = clip.row
        clip.row = Row(row.id, text, row.speaker, row.language, row.reason)
        clip.status = status
        line: dict[str, Any] = {
            "id": row.id,
            "status": status,
            "text": text,
            "speaker": row.speaker,
            "language": row.language,
            "part_of": part_of,
        }
        append(self._folder.decisions, line)

    def _write(self) -> None:
        kept = [clip.row for clip in self._clips.values() if clip.status == KEPT]
        review = [clip.row for clip in self._clips.values() if clip.status == REVIEW]
        write_rows(self._folder, kept, review)


def _row(line: dict[str, Any]) -> Row:
    return Row(line["id"], line["text"], line["speaker"], line["language"], "")
