"""What every spoken file says about itself: that it is synthetic, by which model and voice."""

from __future__ import annotations

from datetime import UTC, datetime

from myxtts.version import VERSION


def tags_of(run: str, step: int, voice: str) -> dict[str, str]:
    """Names as in `audio.writing.audio_writer`."""
    return {
        "comment": f"Synthetic speech, not a recording. Made by MyXTTS {VERSION} with the "
        f"model {run} (step {step}) in the voice: {voice}",
        "artist": f"MyXTTS (synthetic voice: {voice})",
        "date": datetime.now(UTC).date().isoformat(),
    }
