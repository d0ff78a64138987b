"""Finds the recordings that a user names: files, and folders with everything below them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from myxtts.data.corpus.dataset import AUDIO_EXTENSIONS
from myxtts.errors import DataError

_ENDINGS = (*AUDIO_EXTENSIONS, ".aif", ".aiff", ".au", ".caf", ".flv", ".mpg", ".mpeg", ".ts")
_LONGEST_STEM = 40
_KEY_DIGITS = 12


@dataclass(frozen=True)
class Source:
    path: Path
    size_bytes: int
    key: str
    """Another key if the file is another one or has changed."""

    def clip_id(self, number: int) -> str:
        """Unique, and shows where the clip comes from."""
        stem = re.sub(r"[^\w-]+", "_", self.path.stem)[:_LONGEST_STEM].strip("_") or "clip"
        return f"{stem}-{self.key[:6]}-{number:04d}"


@dataclass(frozen=True)
class Found:
    sources: list[Source]
    other_files: int
    """Files in the folders that are no audio or video by their names."""


def find_sources(places: Sequence[Path], out: Path) -> Found:
    """In the order of their names; what is in `out` is no source."""
    sources: dict[Path, Source] = {}
    others = 0
    for place in places:
        if place.is_dir():
            for file in _files_below(place, out.resolve()):
                if file.suffix.lower() in _ENDINGS:
                    _add(sources, file)
                else:
                    others += 1
        elif place.exists():
            _add(sources, place)
        else:
            raise DataError(f"{place}: no such file or folder; expected recordings")
    if not sources:
        named = ", ".join(map(str, places))
        raise DataError(f"{named}: contains no audio or video; expected wav, mp3, m4a, mp4 or such")
    return Found(list(sources.values()), others)


def _files_below(folder: Path, out: Path) -> Iterator[Path]:
    for name, folders, files in os.walk(folder):
        here = Path(name)
        folders[:] = sorted(
            one for one in folders if not one.startswith(".") and (here / one).resolve() != out
        )
        yield from (here / file for file in sorted(files) if not file.startswith("."))


def _add(sources: dict[Path, Source], file: Path) -> None:
    path = file.resolve()
    try:
        status = path.stat()
    except OSError:  # a link that leads nowhere: reading it will say so
        size_bytes, changed_ns = 0, 0
    else:
        size_bytes, changed_ns = status.st_size, status.st_mtime_ns
    identity = f"{path}\0{size_bytes}\0{changed_ns}"
    key = hashlib.sha256(os.fsencode(identity)).hexdigest()[:_KEY_DIGITS]
    sources.setdefault(path, Source(path, size_bytes, key))
