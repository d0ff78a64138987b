"""Requests in the words of OpenAI's API, and their limits. Unknown fields are ignored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from myxtts.models.speech_options import SpeechOptions

_DEFAULTS = SpeechOptions()
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


class SpeechRequest(BaseModel):
    """The fields of OpenAI's `audio.speech`, and a few of MyXTTS."""

    input: Annotated[str, Field(min_length=1, description="Text to speak.")]
    model: Annotated[
        str | None,
        Field(description="A run of GET /v1/models. Any other name means the first run."),
    ] = None
    voice: Annotated[
        str | VoiceId | None,
        Field(description="A voice of GET /v1/voices (default: the first one)."),
    ] = None
    response_format: Annotated[
        Literal["mp3", "wav", "flac", "pcm"],
        Field(description="pcm is 16-bit mono at 24 kHz, little-endian."),
    ] = "mp3"
    speed: Annotated[
        float,
        Field(ge=0.25, le=4, allow_inf_nan=False, description="Speaking rate: 1.2 is 20 % faster."),
    ] = _DEFAULTS.speed
    language: Annotated[
        str | None,
        Field(description="Such as en (default: --language of the server, or that of the run)."),
    ] = None
    stream: Annotated[
        bool | None,
        Field(description="Send audio while it is made (default: yes, except for flac)."),
    ] = None
    seed: Annotated[
        int, Field(ge=0, le=2**31 - 1, description="The same seed gives the same audio.")
    ] = _DEFAULTS.seed
    temperature: Annotated[
        float,
        Field(ge=0, le=2, allow_inf_nan=False, description="0 is flat and stable, 1 is lively."),
    ] = _DEFAULTS.temperature
    # Bounded, so that one request is not a hundred times as expensive as another.
    steps: Annotated[
        int,
        Field(ge=1, le=50, description="Sampling steps: more is slower and slightly clearer."),
    ] = _DEFAULTS.steps

    @property
    def voice_name(self) -> str | None:
        return self.voice.id if isinstance(self.voice, VoiceId) else self.voice
