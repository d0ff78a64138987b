"""A served run: its metadata, voices and speech."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import soundfile
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from myxtts.audio.files import FloatArray
from myxtts.errors import CheckpointError, DataError, MyXTTSError
from myxtts.models.speech_options import SpeechOptions
from myxtts.synthesis.speaker import UnwantedError
from myxtts.synthesis.tts import TTS, tags_of


class Engine:
    """Thread-safe, like TTS."""

    def __init__(
        self,
        name: str,
        run: Path,
        tts: TTS,
        limits: Limits,
        language: str | None = None,
        *,
        strict_voices: bool = False,
    ) -> None:
        """Serve a model; `language` is the default for requests without one.

        With `strict_voices`, OpenAI's voice names are errors unless the model has them.
        """
        self.name, self.tts, self.limits = name, tts, limits
        self._known = set() if strict_voices else _OPENAI_VOICES
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

    def voice(self, asked: SpeechRequest) -> str | None:
        """Return the name of the voice that speaks; None without any."""
        name, saved = asked.voice, self.tts.voices
        name = name.id if isinstance(name, VoiceId) else name
        is_any = name is None or (name not in saved and name in self._known)
        return next(iter(saved), None) if is_any else name

    def tags(self, asked: SpeechRequest) -> dict[str, str]:
        return tags_of(self.name, self.tts.step, self.voice(asked) or "")

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
        language, voice = asked.language or self.languages[0], self.voice(asked)
        left = int(self.limits.audio_seconds * self.tts.sample_rate_hz)
        with self.http_errors():
            if in_chunks:
                pieces = self.tts.stream(
                    asked.input, language=language, voice=voice, options=options
                )
            else:
                lines = self.tts.lines(
                    asked.input,
                    language=language,
                    voice=voice,
                    options=options,
                    is_wanted=wanted.is_set,
                )
                sentences = (
                    piece
                    for one in lines
                    for piece in (one.samples, self._silence(one.line.pause_seconds))
                )
                pieces = itertools.chain([self.tts.edge], sentences, [self.tts.edge])
            for piece in pieces:
                left -= piece.size
                if left < 0:
                    raise DataError(f"speech is longer than {self.limits.audio_seconds:g} s")
                yield piece
                if not wanted.is_set():
                    raise UnwantedError

    def _silence(self, seconds: float) -> FloatArray:
        return np.zeros(int(seconds * self.tts.sample_rate_hz), np.float32)

    @contextlib.contextmanager
    def http_errors(self) -> Iterator[None]:
        """Turn MyXTTS errors into HTTP errors without paths of this machine."""
        try:
            yield
        except MyXTTSError as error:
            message = str(error)
            for path in (self.voices.folder, self._run):
                message = message.replace(str(path), f"model {self.name}")
            status = 409 if isinstance(error, CheckpointError) else 400
            raise HTTPException(status, message) from None


_DEFAULTS = SpeechOptions()
# Built into clients of OpenAI's API.
_OPENAI_VOICES = {
    *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx"),
    *("sage", "shimmer", "verse"),
}
# A character outside the basic plane, escaped in JSON: two times \uXXXX.
_LARGEST_CHARACTER_BYTES = 12
_OTHER_FIELDS_BYTES = 1 << 14


@dataclass(frozen=True, kw_only=True)
class Limits:
    text_characters: int = 4_096
    """Characters of one text. OpenAI's API has the same limit."""
    audio_seconds: float = 600.0
    """Speech of one request."""
    upload_bytes: int = 20 << 20
    """All recordings of one voice."""
    upload_seconds: float = 120.0
    """Each recording of a voice."""
    recordings: int = 8
    """Recordings of one voice."""
    voices: int = 500
    """Voices saved with one run."""
    waiting: int = 64
    """Requests in progress or waiting."""
    request_seconds: float = 120.0
    """Time from a request to the last byte of its answer."""

    @property
    def body_bytes(self) -> int:
        """Largest body without recordings: the longest text in any JSON encoding."""
        return _LARGEST_CHARACTER_BYTES * self.text_characters + _OTHER_FIELDS_BYTES


class VoiceId(BaseModel):
    id: str


class SpeechRequest(BaseModel, use_attribute_docstrings=True):
    """The fields of OpenAI's `audio.speech`, and a few of MyXTTS."""

    input: Annotated[str, Field(min_length=1)]
    """Text to speak."""
    model: str | None = None
    """A run of GET /v1/models. Any other name means the first run."""
    voice: str | VoiceId | None = None
    """A voice of GET /v1/voices (default: the first one, also for OpenAI's names)."""
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] = "mp3"
    """pcm is 16-bit mono at 24 kHz, little-endian. aac needs ffmpeg on the server."""
    stream_format: Literal["audio", "sse"] = "audio"
    """sse: events with the audio in base64."""
    speed: Annotated[float, Field(ge=0.25, le=4, allow_inf_nan=False)] = _DEFAULTS.speed
    """Speaking rate: 1.2 is 20 % faster."""
    language: str | None = None
    """Such as en (default: --language of the server, or that of the run)."""
    stream: bool | None = None
    """Send audio while it is computed (default: yes, except for flac and aac)."""
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = _DEFAULTS.seed
    """The same seed gives the same audio."""
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] = _DEFAULTS.temperature
    """0 is flat and stable, 1 is lively."""
    # Bounded, so that all requests have a similar cost.
    steps: Annotated[int, Field(ge=1, le=50)] = _DEFAULTS.steps
    """Sampling steps: more is slower and slightly clearer."""


_SAMPLE_RATES_HZ = (8_000, 192_000)
_MAX_CHANNELS = 8
_BLOCK_FRAMES = 1 << 16


class Voices:
    """Thread-safe. Errors are those of MyXTTS, or HTTPException."""

    def __init__(self, model: str, run: Path, tts: TTS, limits: Limits) -> None:
        self._model, self._tts, self._limits = model, tts, limits
        self._store = tts.voice_store
        self.folder = self._store.folder
        # One change at a time, so that a free name stays free until it is used.
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
            self._store.remove(name)

    def _require_own(self, name: str) -> None:
        if self._store.is_read_only(name):
            raise HTTPException(403, f"voice {name!r} is read-only")

    def _facts(self, name: str) -> dict[str, Any]:
        facts: dict[str, Any] = {"id": name, "object": "voice", "name": name, "model": self._model}
        try:
            saved = self._store.read(name).facts
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
    problem = None
    try:
        with _silent_libraries(), soundfile.SoundFile(BytesIO(content)) as sound:
            blocks, rate_hz = [np.zeros((0, 1), np.float32)], sound.samplerate
            if not lowest_hz <= rate_hz <= highest_hz or sound.channels > _MAX_CHANNELS:
                problem = (
                    f"{rate_hz} Hz and {sound.channels} channels, expected {lowest_hz} to "
                    f"{highest_hz} Hz and at most {_MAX_CHANNELS} channels"
                )
            while problem is None:
                block = sound.read(_BLOCK_FRAMES, dtype="float32", always_2d=True)
                if not len(block):
                    break
                blocks.append(block.mean(axis=1, keepdims=True, dtype=np.float32))
                if sum(map(len, blocks)) > max_seconds * rate_hz:
                    problem = f"longer than {max_seconds:g} s; a few seconds are enough"
        if problem is None:
            soundfile.write(file, np.concatenate(blocks), rate_hz, format="WAV", subtype="FLOAT")
    except (soundfile.SoundFileError, ValueError, TypeError, OSError):
        problem = "cannot be read as audio; expected wav, flac, ogg or mp3"
    if problem is not None:
        raise DataError(f"{file.stem}: {problem}")


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
