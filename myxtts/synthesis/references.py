"""Recordings of a voice to clone: read, trimmed, levelled and long enough. No TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from myxtts.audio.files import FloatArray, clean_recording, read_audio
from myxtts.config.config import AudioConfig
from myxtts.errors import DataError

Paths = str | Path | Sequence[str | Path]

_SHORTEST_SECONDS = 0.5


class ReferenceRecording(NamedTuple):
    file: Path
    samples: FloatArray


def reference_files(speaker_wav: Paths) -> tuple[Path, ...]:
    files = [speaker_wav] if isinstance(speaker_wav, str | Path) else speaker_wav
    if not files:
        raise DataError("speaker_wav: is empty, expected at least one recording")
    return tuple(map(Path, files))


def read_reference(file: Path, audio: AudioConfig) -> ReferenceRecording:
    samples = clean_recording(read_audio(file, audio.sample_rate_hz), audio)
    seconds = samples.size / audio.sample_rate_hz
    if seconds < _SHORTEST_SECONDS or not samples.any():
        raise DataError(
            f"{file}: {seconds:.2f} s of audio, expected at least {_SHORTEST_SECONDS} s of speech"
        )
    return ReferenceRecording(file, samples)


def reference_state(file: Path) -> tuple[Path, int, int] | None:
    """Differs when the content does; None for a file that cannot be read."""
    try:
        facts = file.stat()
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    return file.absolute(), facts.st_mtime_ns, facts.st_size
