"""Audio files in and out, and the level and edges of a recording. No TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile
import soxr

from myxtts.config.config import AudioConfig
from myxtts.errors import DataError

FloatArray = npt.NDArray[np.float32]

# A reference or clip longer than this is a mistake, or an attempt to fill the memory.
LONGEST_AUDIO_SECONDS = 3_600
_LEVEL_WINDOW_SECONDS = 0.02
_PEAK_LIMIT = 0.99


def read_audio(file: Path, sample_rate_hz: int) -> FloatArray:
    """Mono samples in [-1, 1] at the given rate, from whatever libsndfile reads."""
    try:
        with soundfile.SoundFile(file) as sound:
            if sound.frames > LONGEST_AUDIO_SECONDS * sound.samplerate:
                raise DataError(
                    f"{file}: {sound.frames / sound.samplerate:.0f} s long, "
                    f"expected at most {LONGEST_AUDIO_SECONDS} s; cut it into sentences"
                )
            samples = sound.read(dtype="float32", always_2d=True)
            found_rate_hz = sound.samplerate
    except FileNotFoundError:
        raise DataError(f"{file}: no such file") from None
    except (soundfile.SoundFileError, OSError, ValueError) as error:
        if not Path(file).exists():
            raise DataError(f"{file}: no such file") from None
        raise DataError(
            f"{file}: not audio that can be read ({error}); expected wav, flac, ogg or mp3"
        ) from None
    mono = samples.mean(axis=1, dtype=np.float32)
    if mono.size == 0:
        raise DataError(f"{file}: holds no samples; record it again or take it out")
    if not np.isfinite(mono).all():
        raise DataError(f"{file}: holds samples that are not numbers; export it again")
    if found_rate_hz != sample_rate_hz:
        mono = soxr.resample(mono, found_rate_hz, sample_rate_hz)
    return np.ascontiguousarray(mono, np.float32)


def write_wav(file: Path, waveform: FloatArray, sample_rate_hz: int) -> None:
    """Writes 16-bit samples beside the target and moves them into place."""
    part = file.with_name(f".{file.name}.part")
    try:
        soundfile.write(part, waveform, sample_rate_hz, subtype="PCM_16", format="WAV")
        os.replace(part, file)
    except (soundfile.SoundFileError, OSError) as error:
        part.unlink(missing_ok=True)
        raise DataError(f"{file}: cannot be written ({error})") from None


def clean_recording(waveform: FloatArray, audio: AudioConfig) -> FloatArray:
    """The recording without silence at its ends and at the configured level."""
    if audio.trim_silence_db is not None:
        waveform = trim_silence(waveform, audio.sample_rate_hz, audio.trim_silence_db)
    if audio.loudness_dbfs is not None:
        waveform = set_loudness(waveform, audio.sample_rate_hz, audio.loudness_dbfs)
    return waveform


def trim_silence(
    waveform: FloatArray, sample_rate_hz: int, threshold_db: float, margin_seconds: float = 0.05
) -> FloatArray:
    """Cuts both ends where the level stays `threshold_db` below the loudest window."""
    window = _level_window_samples(sample_rate_hz)
    levels = window_levels(waveform, sample_rate_hz)
    if levels.size == 0 or levels.max() <= 0:
        return waveform
    loud = np.flatnonzero(levels > levels.max() * 10 ** (-threshold_db / 20))
    margin = int(margin_seconds * sample_rate_hz)
    start = max(0, loud[0] * window - margin)
    end = min(waveform.size, (loud[-1] + 1) * window + margin)
    return waveform[start:end]


def set_loudness(waveform: FloatArray, sample_rate_hz: int, loudness_dbfs: float) -> FloatArray:
    """Scales to the level of the louder half of the recording; pauses do not count.

    The peak stays below full scale, so a recording with sharp peaks may end quieter.
    """
    levels = window_levels(waveform, sample_rate_hz)
    if levels.size == 0 or levels.max() <= 0:
        return waveform
    loud = levels[levels >= np.median(levels)]
    gain = 10 ** (loudness_dbfs / 20) / float(np.sqrt(np.mean(loud**2)))
    gain = min(gain, _PEAK_LIMIT / float(np.abs(waveform).max()))
    return waveform * np.float32(gain)


def window_levels(waveform: FloatArray, sample_rate_hz: int) -> FloatArray:
    """RMS of consecutive windows; a rest shorter than a window counts as one."""
    window = _level_window_samples(sample_rate_hz)
    padded = np.pad(waveform, (0, -waveform.size % window))
    return np.sqrt(np.mean(padded.reshape(-1, window) ** 2, axis=1))


def _level_window_samples(sample_rate_hz: int) -> int:
    return max(1, int(_LEVEL_WINDOW_SECONDS * sample_rate_hz))
