"""Recordings that clients send: checked before anything else reads them. No FastAPI.

What a file says of itself may be wrong, and a small one may hold hours of silence, so each is
decoded block by block until it ends or is too long. Names that clients give are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import soundfile

from myxtts.errors import DataError
from myxtts.serving.limits import Limits

_LOWEST_RATE_HZ, _HIGHEST_RATE_HZ = 8_000, 192_000
_MOST_CHANNELS = 8
_BLOCK_FRAMES = 1 << 16


def save_recordings(recordings: Sequence[bytes], folder: Path, limits: Limits) -> list[Path]:
    """Files in `folder` that hold audio of an allowed length."""
    if not 1 <= len(recordings) <= limits.recordings:
        raise DataError(f"{len(recordings)} recordings, expected 1 to {limits.recordings}")
    files = []
    for number, content in enumerate(recordings, start=1):
        # The ending says nothing of the format: ffmpeg is not started for files of strangers.
        file = folder / f"recording-{number}"
        file.write_bytes(content)
        _check(file, limits.upload_seconds)
        files.append(file)
    return files


def _check(file: Path, most_seconds: float) -> None:
    try:
        with soundfile.SoundFile(file) as sound:
            rate_hz = sound.samplerate
            if not _LOWEST_RATE_HZ <= rate_hz <= _HIGHEST_RATE_HZ:
                raise DataError(
                    f"{file.name}: sample rate {rate_hz} Hz, expected {_LOWEST_RATE_HZ} to "
                    f"{_HIGHEST_RATE_HZ}"
                )
            if sound.channels > _MOST_CHANNELS:
                raise DataError(
                    f"{file.name}: {sound.channels} channels, expected at most {_MOST_CHANNELS}"
                )
            frames = 0
            while block := len(sound.read(_BLOCK_FRAMES, dtype="float32", always_2d=True)):
                frames += block
                if frames > most_seconds * rate_hz:
                    raise DataError(
                        f"{file.name}: longer than {most_seconds:g} s; a few seconds are enough"
                    )
    except (soundfile.SoundFileError, ValueError, OSError) as error:
        raise DataError(
            f"{file.name}: cannot be read as audio; expected wav, flac, ogg or mp3"
        ) from error
