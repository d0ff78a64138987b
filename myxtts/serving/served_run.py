"""One run that is served: its voices and its speech. No FastAPI.

Its errors name no files of the server.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.audio.files import FloatArray
from myxtts.errors import CheckpointError, DataError, MyXTTSError
from myxtts.models.speech_options import SpeechOptions
from myxtts.serving.answers import RefusedError
from myxtts.serving.limits import Limits
from myxtts.serving.requests import SpeechRequest
from myxtts.serving.uploads import save_recordings
from myxtts.synthesis.lines import Line
from myxtts.synthesis.provenance import tags_of
from myxtts.synthesis.tts import TTS
from myxtts.synthesis.voices import read_voice, remove_voice, voices_folder
from myxtts.synthesis.work_queue import UnwantedError


class ServedRun:
    """Thread-safe, like TTS."""

    def __init__(
        self, name: str, folder: Path, tts: TTS, limits: Limits, language: str | None = None
    ) -> None:
        """`language` is that of requests which name none, if not the run's own default."""
        self.name, self.tts = name, tts
        first = tts.tokenizer.own_language(language or tts.languages[0])
        self.languages = (first, *(one for one in tts.languages if one != first))
        self._limits = limits
        self._folder = folder
        self._voices = voices_folder(folder)
        # One change of the voices at a time: a name that is free stays so until it is taken.
        self._changing = threading.Lock()

    def facts(self) -> dict[str, Any]:
        return {
            "id": self.name,
            "object": "model",
            "created": 0,
            "owned_by": "myxtts",
            "step": self.tts.step,
            "languages": list(self.languages),
            "sample_rate_hz": self.tts.sample_rate_hz,
        }

    def voices(self) -> list[dict[str, Any]]:
        return [self._voice_facts(name) for name in self.tts.voices]

    def add_voice(self, name: str, recordings: Sequence[bytes], *, replace: bool) -> dict[str, Any]:
        with self._changing, self._refusals(), tempfile.TemporaryDirectory() as folder:
            names = self.tts.voices
            if len(names) >= self._limits.voices and name not in names:
                raise DataError(f"{len(names)} voices are saved already; remove one first")
            files = save_recordings(recordings, Path(folder), self._limits)
            try:
                self.tts.add_voice(name, files, replace=replace)
            except MyXTTSError as error:
                raise DataError(str(error).replace(f"{folder}/", "")) from None
        return self._voice_facts(name)

    def remove_voice(self, name: str) -> None:
        with self._changing, self._refusals():
            if name not in self.tts.voices:
                raise RefusedError(404, f"no voice {name!r}")
            remove_voice(self._voices, name)

    def tags(self, asked: SpeechRequest) -> dict[str, str]:
        return tags_of(self.name, self.tts.step, asked.voice_name or self.tts.voices[0])

    def speak(
        self, asked: SpeechRequest, wanted: threading.Event, *, in_chunks: bool
    ) -> Iterator[FloatArray]:
        """Samples while `wanted` is set, then UnwantedError.

        `in_chunks` gives the first ones earliest; otherwise whole sentences are made together with
        those of other requests, which is faster in total.
        """
        options = SpeechOptions(
            speed=asked.speed,
            seed=asked.seed,
            temperature=asked.temperature,
            steps=asked.steps,
        )
        language = asked.language or self.languages[0]
        with self._refusals():
            if in_chunks:
                pieces = self.tts.stream(
                    asked.input, language=language, voice=asked.voice_name, options=options
                )
            else:
                lines = self.tts.lines(
                    asked.input,
                    language=language,
                    voice=asked.voice_name,
                    options=options,
                    is_wanted=wanted.is_set,
                )
                pieces = (np.append(one.samples, self._pause(one.line)) for one in lines)
            yield from self._limited(pieces, wanted)

    def _limited(
        self, pieces: Iterator[FloatArray], wanted: threading.Event
    ) -> Iterator[FloatArray]:
        left = int(self._limits.audio_seconds * self.tts.sample_rate_hz)
        for piece in pieces:
            left -= piece.size
            if left < 0:
                raise DataError(f"speech is longer than {self._limits.audio_seconds:g} s")
            yield piece
            if not wanted.is_set():
                raise UnwantedError

    def _pause(self, line: Line) -> FloatArray:
        return np.zeros(int(line.pause_seconds * self.tts.sample_rate_hz), np.float32)

    def _voice_facts(self, name: str) -> dict[str, Any]:
        facts: dict[str, Any] = {"id": name, "object": "voice", "name": name, "model": self.name}
        try:
            saved = read_voice(self._voices, name).facts
        except MyXTTSError:
            return facts | {"made": None, "seconds": None}
        seconds = round(sum(one.seconds for one in saved.references), 2)
        return facts | {"made": saved.made, "seconds": seconds}

    @contextlib.contextmanager
    def _refusals(self) -> Iterator[None]:
        """Errors of MyXTTS as answers, without the paths of this machine."""
        try:
            yield
        except MyXTTSError as error:
            message = str(error)
            for path in (self._voices, self._folder):
                message = message.replace(str(path), f"model {self.name}")
            status = 409 if isinstance(error, CheckpointError) else 400
            raise RefusedError(status, message) from None
