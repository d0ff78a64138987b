"""Voices of a served run: listed, added from uploaded recordings, deleted."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from starlette.exceptions import HTTPException

from myxtts.errors import DataError, MyXTTSError
from myxtts.runs.base import INCLUDED_VOICES, is_included
from myxtts.serving.requests import Limits
from myxtts.synthesis.tts import TTS
from myxtts.synthesis.voices import read_voice, remove_voice, voices_folder

_SAMPLE_RATES_HZ = (8_000, 192_000)
_MAX_CHANNELS = 8
_BLOCK_FRAMES = 1 << 16


class Voices:
    """Thread-safe. Errors are those of MyXTTS, or HTTPException."""

    def __init__(self, model: str, run: Path, tts: TTS, limits: Limits) -> None:
        self._model, self._tts, self._limits = model, tts, limits
        self.folder = voices_folder(run)
        self._read_only = INCLUDED_VOICES if is_included(run) else ()
        # One change at a time: a name that is free stays free until it is taken.
        self._changing = threading.Lock()

    def list(self) -> list[dict[str, Any]]:
        return [self._facts(name) for name in self._tts.voices]

    def add(self, name: str, recordings: Sequence[bytes], *, replace: bool) -> dict[str, Any]:
        limits = self._limits
        with self._changing, tempfile.TemporaryDirectory() as folder:
            self._require_own(name)
            names = self._tts.voices
            if len(names) >= limits.voices and name not in names:
                raise DataError(f"{len(names)} voices are saved already; remove one first")
            if not 1 <= len(recordings) <= limits.recordings:
                raise DataError(f"{len(recordings)} recordings, expected 1 to {limits.recordings}")
            files = []
            for number, content in enumerate(recordings, start=1):
                file = Path(folder) / f"recording-{number}.wav"
                _write_decoded(content, file, limits.upload_seconds)
                files.append(file)
            try:
                self._tts.add_voice(name, files, replace=replace)
            except MyXTTSError as error:
                raise DataError(str(error).replace(f"{folder}/", "")) from None
        return self._facts(name)

    def remove(self, name: str) -> None:
        with self._changing:
            if name not in self._tts.voices:
                raise HTTPException(404, f"no voice {name!r}")
            self._require_own(name)
            remove_voice(self.folder, name)

    def _require_own(self, name: str) -> None:
        # File systems may ignore case.
        if name.casefold() in self._read_only:
            raise HTTPException(403, f"voice {name!r} is included with MyXTTS and read-only")

    def _facts(self, name: str) -> dict[str, Any]:
        facts: dict[str, Any] = {"id": name, "object": "voice", "name": name, "model": self._model}
        try:
            saved = read_voice(self.folder, name).facts
        except MyXTTSError:
            return facts | {"made": None, "seconds": None}
        seconds = round(sum(one.seconds for one in saved.references), 2)
        return facts | {"made": saved.made, "seconds": seconds}


def _write_decoded(content: bytes, file: Path, max_seconds: float) -> None:
    """Decode an upload into a wav.

    Only libsndfile decodes it, block by block: the header may be wrong, and a small file may hold
    hours of silence.
    """
    lowest_hz, highest_hz = _SAMPLE_RATES_HZ
    try:
        with _silent_libraries(), soundfile.SoundFile(BytesIO(content)) as sound:
            rate_hz = sound.samplerate
            if not lowest_hz <= rate_hz <= highest_hz:
                raise DataError(
                    f"{file.stem}: sample rate {rate_hz} Hz, expected {lowest_hz} to {highest_hz}"
                )
            if sound.channels > _MAX_CHANNELS:
                raise DataError(
                    f"{file.stem}: {sound.channels} channels, expected at most {_MAX_CHANNELS}"
                )
            blocks, frames = [], 0
            while len(block := sound.read(_BLOCK_FRAMES, dtype="float32", always_2d=True)):
                blocks.append(block)
                frames += len(block)
                if frames > max_seconds * rate_hz:
                    raise DataError(
                        f"{file.stem}: longer than {max_seconds:g} s; a few seconds are enough"
                    )
        samples = np.concatenate(blocks) if blocks else np.zeros((0, 1), np.float32)
        soundfile.write(file, samples, rate_hz, format="WAV", subtype="FLOAT")
    except (soundfile.SoundFileError, ValueError, TypeError, OSError) as error:
        raise DataError(
            f"{file.stem}: cannot be read as audio; expected wav, flac, ogg or mp3"
        ) from error


@contextlib.contextmanager
def _silent_libraries() -> Iterator[None]:
    """Discard what libmpg123 prints to standard error about damaged files.

    One thread at a time, which the lock of `Voices.add` ensures for one run.
    """
    with _STDERR, open(os.devnull, "wb") as nowhere:
        before = os.dup(2)
        try:
            os.dup2(nowhere.fileno(), 2)
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)


_STDERR = threading.Lock()
