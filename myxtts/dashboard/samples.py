"""Samples and alignments of a run: which there are, and their bytes.

The folder may come from anywhere. Only names that a run itself gives are read, only regular files
that are not behind a link, and only sounds and pictures of the expected format.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.runs.run_dir import RunDir

_NAME = re.compile(r"step_(\d{8})(\.wav|_alignment\.png)|recording\.wav", re.ASCII)
_MOST_FILES = 10_000
_WAV, _PNG = "audio/wav", "image/png"


@dataclass(frozen=True)
class Media:
    kind: str
    content: bytes


def list_samples(run: RunDir) -> dict[str, Any]:
    """Steps with the names of their files, oldest first, and the name of the recording."""
    names = [name for name in _names_in(run.samples) if _NAME.fullmatch(name)]
    by_step: dict[int, dict[str, Any]] = {}
    for name in names:
        match = _NAME.fullmatch(name)
        if match and match[1]:
            sample = by_step.setdefault(int(match[1]), {"step": int(match[1])})
            sample["sound" if match[2] == ".wav" else "alignment"] = name
    recording = run.recording_file.name
    return {
        "steps": [by_step[step] for step in sorted(by_step)],
        "recording": recording if recording in names else None,
    }


def read_media(run: RunDir, name: str) -> Media | None:
    """A file of the samples by its name; None if it is not there or not what its name says."""
    if not _NAME.fullmatch(name) or run.samples.is_symlink():
        return None
    try:
        content = (run.samples / name).read_bytes()
    except OSError:
        return None
    if name.endswith(".png"):
        return Media(_PNG, content) if content.startswith(b"\x89PNG\r\n\x1a\n") else None
    is_wav = content[:4] == b"RIFF" and content[8:12] == b"WAVE"
    return Media(_WAV, content) if is_wav else None


def _names_in(folder: Path) -> list[str]:
    if folder.is_symlink():
        return []
    names = []
    try:
        for file in folder.iterdir():
            names.append(file.name)
            if len(names) == _MOST_FILES:
                break
    except OSError:
        return []
    return names
