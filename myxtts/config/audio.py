"""Settings of the mel spectrogram."""

from __future__ import annotations

from myxtts.config.schema import Section, frozen_settings, setting


@frozen_settings
class AudioConfig(Section):
    """How audio is turned into log-mel spectrograms."""

    section_name = "audio"
    sample_rate_hz: int = setting(
        22_050,
        "Sample rate of the model; every clip is resampled to it.",
        least=8_000,
        most=192_000,
    )
    fft_samples: int = setting(1_024, "FFT size and window length.", least=64, most=65_536)
    hop_samples: int = setting(256, "Hop between consecutive mel frames.", least=16, most=32_768)
    lowest_hz: float = setting(0.0, "Lower edge of the lowest mel band.", least=0)
    highest_hz: float = setting(8_000.0, "Upper edge of the highest mel band.", least=100)
    trim_silence_db: float | None = setting(
        40.0,
        "Leading and trailing silence is trimmed where it is more than this many dB below the "
        "peak; null keeps it.",
        least=1,
    )
    loudness_dbfs: float | None = setting(
        -23.0,
        "Every clip is normalised to this level (RMS of its louder parts), so that recordings "
        "made at different levels match; null leaves levels unchanged.",
        most=0,
    )
