"""Positions of mel frames in samples: arithmetic only, without TensorFlow.

Frames are centred: frame n is centred on sample n * hop, and the waveform is padded by half a
window on both sides for the frames at its ends. Counts may be ints, arrays or tensors.
"""

from __future__ import annotations

from typing import Any

from myxtts.config.config import AudioConfig

MEL_RULES = 1
"""Increase it when the same recording gives a different mel, to invalidate cached features."""


def mel_frame_count(samples: int, audio: AudioConfig) -> int:
    """Number of frames of a clip: one per hop, plus one."""
    return samples // audio.hop_samples + 1


def span_samples(frames: Any, audio: AudioConfig) -> Any:
    """Samples from the centre of the first frame to the centre of the last."""
    return (frames - 1) * audio.hop_samples


def padding_samples(audio: AudioConfig) -> tuple[int, int]:
    """Zero padding before and after a clip: one window in total."""
    before = audio.fft_samples // 2
    return before, audio.fft_samples - before


def window_start(frame: Any, audio: AudioConfig) -> Any:
    """First sample in the window of a frame; negative values are in the padding."""
    return frame * audio.hop_samples - padding_samples(audio)[0]


def padded_samples(span: int, audio: AudioConfig) -> int:
    """Samples needed for the frames over a span, including padding."""
    return span + sum(padding_samples(audio))


def frames_in_padded(samples: Any, audio: AudioConfig) -> Any:
    """Number of frames whose windows fit in `samples`, which includes padding."""
    return (samples - audio.fft_samples) // audio.hop_samples + 1


def seconds_of_frames(frames: Any, audio: AudioConfig) -> Any:
    """Duration: one hop per frame."""
    return frames * audio.hop_samples / audio.sample_rate_hz
