"""What one client may ask for, and how long it may take. No FastAPI."""

from __future__ import annotations

from dataclasses import dataclass

# A character outside the basic plane, escaped in JSON: two times \uXXXX.
_LARGEST_CHARACTER_BYTES = 12
_OTHER_FIELDS_BYTES = 1 << 14


@dataclass(frozen=True, kw_only=True)
class Limits:
    text_characters: int = 4_096
    """Of one request; the limit of OpenAI's API."""
    audio_seconds: float = 600.0
    """Speech of one request."""
    upload_bytes: int = 20 << 20
    """All recordings of one voice."""
    upload_seconds: float = 120.0
    """Each recording of a voice."""
    recordings: int = 8
    """Of one voice."""
    voices: int = 500
    """Saved with one run."""
    waiting: int = 64
    """Requests that are being answered or wait for that."""
    request_seconds: float = 120.0
    """From a request to the last byte of its answer."""
    connections: int = 512
    receive_seconds: float = 60.0
    """For a client to send a whole request, its head and its body."""
    send_seconds: float = 20.0
    """For a client that reads nothing of its answer."""
    shutdown_seconds: float = 30.0
    """For requests that are being answered when the server is told to stop."""

    @property
    def body_bytes(self) -> int:
        """Of requests without recordings: the longest text in any JSON encoding."""
        return _LARGEST_CHARACTER_BYTES * self.text_characters + _OTHER_FIELDS_BYTES
