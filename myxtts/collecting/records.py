"""The files in which `collect` keeps what it has done, so that it can go on later.

    CORPUS/
      metadata.csv          clips to train on
      review.csv            clips that somebody should listen to, with the reason
      collect.html          what was kept, put aside and dropped, and why
      collect.json          the same for programs
      wavs/                 the clips
      .collect/
        settings.json       how the recordings are cut
        sources.jsonl       a line for each recording that is done
        transcripts.jsonl   a line for each transcript
        voices.jsonl        a line for the voice of each clip
        agreements.jsonl    a line for how well the text of a clip agrees with its sound
        decisions.jsonl     a line for each decision in `myxtts review`

A line is appended whole; one that was not finished is ignored.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from myxtts.errors import DataError
from myxtts.json_files import parse_json, read_json
from myxtts.whole_files import write_whole_file
from myxtts.wording import quoted

_CLIP_ID = re.compile(r"[\w-][\w.-]*")
FIGURES = ("level_dbfs", "dc_offset", "clipped_share", "snr_db", "modulation_db")
_CLIP = {
    "id": str,
    "start": float,
    "seconds": float,
    "speech_seconds": float,
    "fingerprint": str,
    **dict.fromkeys(FIGURES, float),
}
SOURCE_LINE = {
    "source": str,
    "path": str,
    "seconds": float,
    "speech_seconds": float,
    "reverberation_seconds": (float, None),
    "problem": (str, None),
    "clips": [_CLIP],
    "dropped": [{"start": float, "seconds": float, "reason": str, "detail": str}],
}
TRANSCRIPT_LINE = {"id": str, "by": str, "text": str, "second": (str, None)}
# As base64: the vector in 32-bit floats, those of windows in 16-bit ones; empty for silence.
VOICE_LINE = {"id": str, "vector": str, "windows": str}
AGREEMENT_LINE = {"id": str, "text": str, "by": str, "agreement": (float, None)}
DECISION_LINE = {
    "id": str,
    "status": str,
    "text": str,
    "speaker": str,
    "language": str,
    "part_of": (str, None),
}


class CorpusFolder:
    """Every name in the folder of a collected corpus."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clips = folder / "wavs"
        self.metadata = folder / "metadata.csv"
        self.review = folder / "review.csv"
        self.page = folder / "collect.html"
        self.report = folder / "collect.json"
        self._state = folder / ".collect"
        self.sources = self._state / "sources.jsonl"
        self.transcripts = self._state / "transcripts.jsonl"
        self.voices = self._state / "voices.jsonl"
        self.agreements = self._state / "agreements.jsonl"
        self.decisions = self._state / "decisions.jsonl"
        self._settings = self._state / "settings.json"

    def clip(self, clip_id: str) -> Path:
        """A corpus from elsewhere may have names that lead out of its folder."""
        if not _CLIP_ID.fullmatch(clip_id):
            raise DataError(f"{self.folder}: clip {quoted(clip_id)}: expected a plain name")
        return self.clips / f"{clip_id}.wav"

    def is_collected(self) -> bool:
        return self._settings.is_file()

    def require_collected(self) -> None:
        if not self.is_collected():
            raise DataError(
                f"{self.folder}: was not made by collect; expected the --out of `myxtts collect`"
            )

    def prepare(self, settings: dict[str, float]) -> None:
        """Makes the folder, or finds it made with the same settings."""
        if self.folder.exists() and not self.folder.is_dir():
            raise DataError(f"{self.folder}: is a file; expected a new folder for --out")
        if not self._settings.exists():
            if self.folder.is_dir() and any(self.folder.iterdir()) and not self._state.is_dir():
                raise DataError(
                    f"{self.folder}: exists and was not made by collect; choose another --out"
                )
            try:
                self._state.mkdir(parents=True, exist_ok=True)
                self.clips.mkdir(exist_ok=True)
                write_whole_file(self._settings, json.dumps(settings) + "\n")
            except OSError as error:
                raise DataError(f"{self.folder}: cannot be made ({error.strerror})") from None
            return
        try:
            before = read_json(self._settings)
        except (OSError, ValueError) as error:
            raise DataError(f"{self._settings}: cannot be read ({error})") from None
        for name, value in settings.items():
            if before.get(name) != value:
                raise DataError(
                    f"{self.folder}: was collected with --{name} {before.get(name, 0):g}, found "
                    f"{value:g}; use the same or another --out"
                )


def append(file: Path, line: dict[str, Any]) -> None:
    """The whole line or, on a full disk, nothing of it."""
    content = json.dumps(line, ensure_ascii=False).encode() + b"\n"
    with open(file, "ab+", buffering=0) as stream:
        size = stream.seek(0, os.SEEK_END)
        if size:
            stream.seek(size - 1)
            if stream.read(1) != b"\n":  # an interrupted write
                content = b"\n" + content
        if stream.write(content) != len(content):
            stream.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))


def read_lines(file: Path, schema: Any) -> Iterator[dict[str, Any]]:
    """Lines that are whole and as expected."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from None
    for line in content.split(b"\n"):
        try:
            yield parse_json(line, schema)
        except ValueError:
            continue
