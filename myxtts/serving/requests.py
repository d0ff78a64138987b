"""What clients may send, in the words of OpenAI's API. Fields that it does not know are ignored."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from myxtts.models.speech_options import SpeechOptions

ResponseFormat = Literal["mp3", "wav", "flac", "pcm"]
_DEFAULTS = SpeechOptions()


class VoiceId(BaseModel):
    id: str


class SpeechRequest(BaseModel):
    """The fields of OpenAI's `audio.speech`, and a few of MyXTTS."""

    input: Annotated[str, Field(min_length=1, description="Text to speak.")]
    model: Annotated[
        str | None,
        Field(description="A run of GET /v1/models; any other name means the first run."),
    ] = None
    voice: Annotated[
        str | VoiceId | None,
        Field(description="A voice of GET /v1/voices; the first one if not given."),
    ] = None
    response_format: Annotated[
        ResponseFormat, Field(description="pcm is 16-bit mono at 24 kHz, little-endian.")
    ] = "mp3"
    speed: Annotated[
        float,
        Field(ge=0.25, le=4, allow_inf_nan=False, description="Speaking rate: 1.2 is 20 % faster."),
    ] = _DEFAULTS.speed
    language: Annotated[
        str | None,
        Field(description="Such as en; if not given, the server's --language or the run's own."),
    ] = None
    stream: Annotated[
        bool | None,
        Field(description="Send audio while it is made: on by default, but for flac."),
    ] = None
    seed: Annotated[
        int, Field(ge=0, le=2**31 - 1, description="The same seed gives the same audio.")
    ] = _DEFAULTS.seed
    temperature: Annotated[
        float,
        Field(ge=0, le=2, allow_inf_nan=False, description="0 is flat and stable, 1 is lively."),
    ] = _DEFAULTS.temperature
    # One request may not be a hundred times as dear as another.
    steps: Annotated[
        int,
        Field(ge=1, le=50, description="Sampling steps: more is slower and slightly clearer."),
    ] = _DEFAULTS.steps

    @property
    def voice_name(self) -> str | None:
        return self.voice.id if isinstance(self.voice, VoiceId) else self.voice
