"""Where mel frames lie over samples: counting alone, without TensorFlow.

Frames are centred: frame n is centred on sample n * hop, and the waveform is padded by half a
window on both sides for the frames at its ends. Counts may be ints, arrays or tensors.
"""

from __future__ import annotations

from typing import Any

from myxtts.config.config import AudioConfig

MEL_RULES = 1
"""To be raised when the same recording gives another mel: prepared features are then made again."""


def mel_frame_count(samples: int, audio: AudioConfig) -> int:
    """Frames of a clip: one for every hop in it, and the first."""
    return samples // audio.hop_samples + 1


def span_samples(frames: Any, audio: AudioConfig) -> Any:
    """Samples from the centre of the first frame to that of the last."""
    return (frames - 1) * audio.hop_samples


def padding_samples(audio: AudioConfig) -> tuple[int, int]:
    """Silence before and after a clip: together one window."""
    before = audio.fft_samples // 2
    return before, audio.fft_samples - before


def window_start(frame: Any, audio: AudioConfig) -> Any:
    """The first sample in the window of a frame; below zero it lies in the padding."""
    return frame * audio.hop_samples - padding_samples(audio)[0]


def padded_samples(span: int, audio: AudioConfig) -> int:
    """So many samples and the padding around them: what the frames over a span are made of."""
    return span + sum(padding_samples(audio))


def frames_in_padded(samples: Any, audio: AudioConfig) -> Any:
    """Frames whose windows lie within so many samples, the padding counted among them."""
    return (samples - audio.fft_samples) // audio.hop_samples + 1


def seconds_of_frames(frames: Any, audio: AudioConfig) -> Any:
    """A hop of sound for each frame."""
    return frames * audio.hop_samples / audio.sample_rate_hz
