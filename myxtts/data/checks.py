"""Which clips cannot be trained on, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from myxtts.config.config import XTTSConfig
from myxtts.data.ljspeech import Utterance

_SHORTEST_CLIP_SECONDS = 0.2


@dataclass(frozen=True)
class Rejection:
    """A clip that is left out: where it stands, the reason it is counted under, the details."""

    source: str
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}: {self.detail}"


def check_clip(
    item: Utterance, symbols: Sequence[str], samples: int, config: XTTSConfig
) -> Rejection | None:
    """The first thing that is wrong with a clip that could be read, or None."""

    def reject(reason: str, detail: str) -> Rejection:
        return Rejection(item.source, reason, detail)

    audio = config.audio
    frames = samples // audio.hop_samples + 1
    tokens = len(symbols) + 2
    if not any(character.isalnum() for symbol in symbols for character in symbol):
        return reject("empty text", f"nothing to say in {item.text!r}")
    if samples < _SHORTEST_CLIP_SECONDS * audio.sample_rate_hz:
        return reject("too short", f"{samples / audio.sample_rate_hz:.2f} s of sound")
    if tokens > config.data.max_text_length:
        return reject(
            "text too long",
            f"{tokens} tokens, data.max_text_length is {config.data.max_text_length}",
        )
    if config.data.max_mel_frames is not None and frames > config.data.max_mel_frames:
        return reject(
            "clip too long", f"{frames} frames, data.max_mel_frames is {config.data.max_mel_frames}"
        )
    if frames // config.model.frames_per_position < tokens:
        return reject(
            "too short for its text",
            f"{frames} frames for {tokens} tokens; is the text this clip's?",
        )
    return None
