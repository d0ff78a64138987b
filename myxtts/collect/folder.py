"""Files of a collected corpus, which make `collect` and `review` resumable."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from myxtts.errors import DataError, quoted
from myxtts.files import parse_json, read_json, write_file
from myxtts.text.markup import read_text

KEPT, REVIEW, DROPPED = "kept", "review", "dropped"
RECORDED = "recorded"
"""Prefix of the ids of sentences recorded in the browser."""

# Keys of a line.
SOURCE_LINE = ("source", "path", "seconds", "speech_seconds", "problem", "clips", "dropped")
TRANSCRIPT_LINE = ("id", "by", "text")
# Vectors are base64: the clip's in 32-bit floats, its windows' in 16-bit ones; empty for silence.
VOICE_LINE = ("id", "vector", "windows")
DECISION_LINE = ("id", "status", "text", "speaker", "language", "part_of")

# Escape sequences of terminals, control characters that are not whitespace, marks and overrides of
# direction, halves of characters. Joiners stay: Persian and others are written with them.
_UNWANTED = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"
    r"\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_CLIP_ID = re.compile(r"[\w-][\w.-]*")
_HEADER = "audio_file|text|speaker_name|language"
_REVIEW_HEADER = f"{_HEADER}|reason"


class Row(NamedTuple):
    id: str
    text: str
    speaker: str
    language: str
    reason: str = ""


class CorpusFolder:
    """Every name in the folder of a collected corpus."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clips = folder / "wavs"
        self.metadata = folder / "metadata.csv"
        self.review = folder / "review.csv"
        self.report = folder / "collect.json"
        self._state = folder / ".collect"
        self.sources = self._state / "sources.jsonl"
        self.transcripts = self._state / "transcripts.jsonl"
        self.voices = self._state / "voices.jsonl"
        self.decisions = self._state / "decisions.jsonl"
        self._settings = self._state / "settings.json"

    def clip(self, clip_id: str) -> Path:
        """Return the wav of a clip; a name that leaves the folder is an error."""
        if not _CLIP_ID.fullmatch(clip_id):
            raise DataError(f"{self.folder}: clip {quoted(clip_id)}: expected a plain name")
        return self.clips / f"{clip_id}.wav"

    def is_collected(self) -> bool:
        return self._settings.is_file()

    def prepare(self, settings: Mapping[str, float]) -> None:
        """Create the folder, or check that it was created with the same settings."""
        if self._settings.exists():
            try:
                before = read_json(self._settings)
            except (OSError, ValueError) as error:
                raise DataError(f"{self._settings}: cannot be read ({error})") from None
            for name, value in settings.items():
                if before.get(name) != value:
                    raise DataError(
                        f"{self.folder}: was collected with --{name} {before.get(name, 0):g}, "
                        f"found {value:g}; use the same or another --out"
                    )
            return
        if self.folder.exists() and not self.folder.is_dir():
            raise DataError(f"{self.folder}: is a file; expected a new folder for --out")
        if self.folder.is_dir() and any(self.folder.iterdir()) and not self._state.is_dir():
            raise DataError(
                f"{self.folder}: exists and was not created by collect; choose another --out"
            )
        try:
            self._state.mkdir(parents=True, exist_ok=True)
            self.clips.mkdir(exist_ok=True)
            write_file(self._settings, json.dumps(settings) + "\n")
        except OSError as error:
            raise DataError(f"{self.folder}: cannot be made ({error.strerror})") from None

    def write_rows(self, kept: Sequence[Row], review: Sequence[Row]) -> None:
        """Write both tables; without clips to train on there is no metadata file."""
        try:
            lines = [f"{_cells(row)}|{tidy(row.reason)}" for row in review]
            write_file(self.review, "\n".join([_REVIEW_HEADER, *lines]) + "\n")
            if kept:
                write_file(self.metadata, "\n".join([_HEADER, *map(_cells, kept)]) + "\n")
            else:
                self.metadata.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(f"{self.folder}: cannot be written ({error.strerror})") from None


def append(file: Path, line: Mapping[str, Any]) -> None:
    """Append the whole line or, on a full disk, nothing of it."""
    # The name of a file, and so of a transcriber, may not be UTF-8.
    content = json.dumps(line, ensure_ascii=False).encode(errors="surrogatepass") + b"\n"
    with open(file, "ab+", buffering=0) as stream:
        size = stream.seek(0, os.SEEK_END)
        if size:
            stream.seek(size - 1)
            if stream.read(1) != b"\n":  # an interrupted write
                content = b"\n" + content
        if stream.write(content) != len(content):
            stream.truncate(size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))


def read_lines(file: Path, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the complete lines that have these names."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from None
    for line in content.split(b"\n"):
        try:
            yield parse_json(line, names)
        except ValueError:
            continue


def read_rows(file: Path) -> list[Row]:
    """Return the rows of a table, none if there is no file."""
    if not file.exists():
        return []
    header, *lines = read_text(file).splitlines() or [""]
    if header not in (_HEADER, _REVIEW_HEADER):
        raise DataError(f"{file}:1: found '{header[:80]}', expected {_HEADER}")
    rows = []
    for number, line in enumerate(lines, 2):
        cells = line.split("|")
        if len(cells) != len(header.split("|")):
            raise DataError(f"{file}:{number}: found {len(cells)} columns, expected {header}")
        rows.append(Row(cells[0].removeprefix("wavs/").removesuffix(".wav"), *cells[1:]))
    return rows


def _cells(row: Row) -> str:
    return f"wavs/{row.id}.wav|{tidy(row.text)}|{tidy(row.speaker)}|{row.language}"


def tidy(text: str) -> str:
    """Return one line for a metadata file, without control or direction characters."""
    return " ".join(_UNWANTED.sub("", text.replace("|", " ")).split())


def readable(text: str) -> str:
    """Return text that can be encoded, even if it is a file name in another encoding."""
    return text.encode(errors="backslashreplace").decode()
