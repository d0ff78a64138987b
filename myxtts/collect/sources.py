"""Finds the recordings that a user names: files, and folders with everything below them."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from myxtts.data.metadata import AUDIO_EXTENSIONS
from myxtts.errors import DataError

_ENDINGS = frozenset(
    {
        *AUDIO_EXTENSIONS,
        *(".aif", ".aiff", ".au", ".caf", ".flv", ".mpg", ".mpeg", ".ts"),
        *(".m4p", ".aax"),  # mostly protected, which is told
    }
)
_LONGEST_STEM = 40
_KEY_DIGITS = 12
_FILES_PER_REPORT = 500


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


def find_sources(
    places: Sequence[Path], out: Path, on_progress: Callable[[int], None] = lambda files: None
) -> Found:
    """In the order of their names; what is in `out` is no source."""
    sources: dict[Path, Source] = {}
    files = others = 0
    out = out.resolve()
    for place in places:
        if place.is_dir():
            for file in _files_below(place.resolve(), out):
                files += 1
                if files % _FILES_PER_REPORT == 0:
                    on_progress(files)
                if file.suffix.lower() in _ENDINGS:
                    _add(sources, file)
                else:
                    others += 1
        elif place.exists():
            _add(sources, place.resolve())
        else:
            raise DataError(f"{place}: no such file or folder; expected recordings")
    if not sources:
        named = ", ".join(map(str, places))
        raise DataError(f"{named}: contains no audio or video; expected wav, mp3, m4a, mp4 or such")
    return Found(list(sources.values()), others)


def _files_below(folder: Path, out: Path) -> Iterator[Path]:
    """Real paths. Only links are resolved: to resolve every path would take most of the time."""
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                entries = [entry for entry in found if not entry.name.startswith(".")]
        except OSError:  # a folder that may not be read
            continue
        folders = []
        for entry in sorted(entries, key=lambda entry: entry.name):
            if not entry.is_dir():
                file = Path(entry.path)
                yield file.resolve() if entry.is_symlink() else file
            elif not entry.is_symlink() and entry.path != str(out):
                folders.append(entry.path)
        waiting += reversed(folders)


def _add(sources: dict[Path, Source], path: Path) -> None:
    try:
        status = path.stat()
    except OSError:  # a link that leads nowhere: reading it will say so
        size_bytes, changed_ns = 0, 0
    else:
        size_bytes, changed_ns = status.st_size, status.st_mtime_ns
    identity = f"{path}\0{size_bytes}\0{changed_ns}"
    key = hashlib.sha256(os.fsencode(identity)).hexdigest()[:_KEY_DIGITS]
    sources.setdefault(path, Source(path, size_bytes, key))
