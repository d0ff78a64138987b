"""Writes audio files piece by piece: the format by the name's ending, whole or not at all.

No TensorFlow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import soundfile

from myxtts.audio.files import FloatArray
from myxtts.config.schema import did_you_mean
from myxtts.errors import DataError
from myxtts.files import atomic_file, require_creatable


@contextlib.contextmanager
def audio_writer(
    file: Path,
    sample_rate_hz: int,
    tags: Mapping[str, str] | None = None,
    *,
    follow_link: bool = True,
) -> Iterator[Callable[[FloatArray], None]]:
    """A function that appends samples; the file appears when the block ends without an error.

    `tags` are names that libsndfile knows, such as title, artist, comment and date. Without
    `follow_link` a link is replaced, and not what it leads to.
    """
    require_writable(file)
    if follow_link:
        file = file.resolve()
    kind = FORMATS[file.suffix.lower()]
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(atomic_file(file))
            # By file descriptor: libsndfile would swallow errors of a Python file object.
            sound = stack.enter_context(
                soundfile.SoundFile(
                    stream.fileno(),
                    "w",
                    samplerate=sample_rate_hz,
                    channels=1,
                    format=kind.name,
                    subtype=kind.subtype,
                    closefd=False,
                )
            )
            for name, value in (tags or {}).items():
                setattr(sound, name, value)
            yield sound.write
            stack.close()
        except soundfile.SoundFileError as error:
            raise DataError(f"{file}: cannot be written ({error})") from None
        except OSError as error:
            raise DataError(f"{file}: cannot be written ({error.strerror})") from None


def write_audio(
    file: Path,
    waveform: FloatArray,
    sample_rate_hz: int,
    tags: Mapping[str, str] | None = None,
    *,
    follow_link: bool = True,
) -> None:
    with audio_writer(file, sample_rate_hz, tags, follow_link=follow_link) as write:
        write(waveform)


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
        require_creatable(file)
    except OSError as error:
        raise DataError(f"{file}: cannot be written ({error.strerror})") from None
