"""Writes audio files piece by piece: the format by the name's ending, whole or not at all.

No TensorFlow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import soundfile

from myxtts.audio.files import FloatArray
from myxtts.audio.formats import FORMATS, require_writable
from myxtts.errors import DataError
from myxtts.whole_files import whole_file


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
            stream = stack.enter_context(whole_file(file))
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
