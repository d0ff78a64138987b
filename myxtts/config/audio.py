"""Settings of the mel spectrogram."""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.config.schema import Section, setting


@dataclass(frozen=True, kw_only=True)
class AudioConfig(Section):
    """How a waveform becomes a log-mel spectrogram."""

    section_name = "audio"
    sample_rate_hz: int = setting(
        22_050, "Every clip is resampled to this rate.", least=8_000, most=192_000
    )
    fft_samples: int = setting(1_024, "Length of the analysis window.", least=64, most=65_536)
    hop_samples: int = setting(256, "Distance between two mel frames.", least=16, most=32_768)
    lowest_hz: float = setting(0.0, "Lower edge of the lowest mel band.", least=0)
    highest_hz: float = setting(8_000.0, "Upper edge of the highest mel band.", least=100)
    trim_silence_db: float | None = setting(
        40.0,
        "Silence at both ends quieter than this many dB below the peak is cut; null keeps it.",
        least=1,
    )
    loudness_dbfs: float | None = setting(
        -23.0,
        "Every clip is brought to this level (RMS of its louder parts), so that voices "
        "recorded at different levels do not look different; null keeps the level.",
        most=0,
    )
