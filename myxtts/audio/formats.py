"""The formats that audio is written in, by the ending of a file's name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from myxtts.config.names import did_you_mean
from myxtts.errors import DataError
from myxtts.whole_files import require_room


class Format(NamedTuple):
    """Names of libsndfile."""

    name: str
    subtype: str


FORMATS = {
    ".wav": Format("WAV", "PCM_16"),
    ".flac": Format("FLAC", "PCM_16"),
    ".ogg": Format("OGG", "VORBIS"),
    ".mp3": Format("MP3", "MPEG_LAYER_III"),
}
AUDIO_ENDINGS = tuple(ending.removeprefix(".") for ending in FORMATS)


def require_writable(file: Path, endings: Iterable[str] = tuple(FORMATS)) -> None:
    """Raises an error for an ending that is not written, or a place that nothing is written to."""
    ending, expected = file.suffix.lower(), list(endings)
    if ending not in expected:
        found = f"its name ends in {ending!r}" if ending else "its name has no ending"
        raise DataError(
            f"{file}: cannot be written ({found}, expected "
            f"{', '.join(expected)}{did_you_mean(ending, expected)})"
        )
    if file.is_dir():
        raise DataError(f"{file}: cannot be written (is a folder)")
    if not file.parent.is_dir():
        raise DataError(f"{file}: cannot be written (no folder {file.parent})")
    try:
        require_room(file)
    except OSError as error:
        raise DataError(f"{file}: cannot be written ({error.strerror})") from None
