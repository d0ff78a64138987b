"""A served run: its facts, its voices, its speech."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException

from myxtts.audio.files import FloatArray
from myxtts.errors import CheckpointError, DataError, MyXTTSError
from myxtts.models.speech_options import SpeechOptions
from myxtts.serving.requests import Limits, SpeechRequest
from myxtts.serving.voices import Voices
from myxtts.synthesis.provenance import tags_of
from myxtts.synthesis.tts import TTS
from myxtts.synthesis.work_queue import UnwantedError


class Engine:
    """Thread-safe, like TTS."""

    def __init__(
        self, name: str, run: Path, tts: TTS, limits: Limits, language: str | None = None
    ) -> None:
        """`language` is used for requests without one, instead of the default of the run."""
        self.name, self.tts, self.limits = name, tts, limits
        self.voices = Voices(name, run, tts, limits)
        first = tts.tokenizer.own_language(language or tts.languages[0])
        self.languages = (first, *(one for one in tts.languages if one != first))
        self._run = run

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

    def tags(self, asked: SpeechRequest) -> dict[str, str]:
        return tags_of(self.name, self.tts.step, asked.voice_name or self.tts.voices[0])

    def speak(
        self, asked: SpeechRequest, wanted: threading.Event, *, in_chunks: bool
    ) -> Iterator[FloatArray]:
        """Yield samples while `wanted` is set, then raise UnwantedError.

        `in_chunks` gives the first samples earliest. Otherwise whole sentences are batched with
        those of other requests, which is faster in total.
        """
        options = SpeechOptions(
            speed=asked.speed, seed=asked.seed, temperature=asked.temperature, steps=asked.steps
        )
        language, voice = asked.language or self.languages[0], asked.voice_name
        left = int(self.limits.audio_seconds * self.tts.sample_rate_hz)
        with self.http_errors():
            if in_chunks:
                pieces = self.tts.stream(
                    asked.input, language=language, voice=voice, options=options
                )
            else:
                pieces = self._sentences(asked.input, language, voice, options, wanted)
            for piece in pieces:
                left -= piece.size
                if left < 0:
                    raise DataError(f"speech is longer than {self.limits.audio_seconds:g} s")
                yield piece
                if not wanted.is_set():
                    raise UnwantedError

    def _sentences(
        self,
        text: str,
        language: str,
        voice: str | None,
        options: SpeechOptions,
        wanted: threading.Event,
    ) -> Iterator[FloatArray]:
        lines = self.tts.lines(
            text, language=language, voice=voice, options=options, is_wanted=wanted.is_set
        )
        for spoken in lines:
            pause = int(spoken.line.pause_seconds * self.tts.sample_rate_hz)
            yield np.append(spoken.samples, np.zeros(pause, np.float32))

    @contextlib.contextmanager
    def http_errors(self) -> Iterator[None]:
        """Turn errors of MyXTTS into answers, without paths of this machine."""
        try:
            yield
        except MyXTTSError as error:
            message = str(error)
            for path in (self.voices.folder, self._run):
                message = message.replace(str(path), f"model {self.name}")
            status = 409 if isinstance(error, CheckpointError) else 400
            raise HTTPException(status, message) from None
