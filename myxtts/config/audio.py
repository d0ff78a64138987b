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
    highest_hz: float = setting(8_000.0, "Upper edge of the highest mel band.", least=100)
