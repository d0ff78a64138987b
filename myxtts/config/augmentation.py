"""Settings of data augmentation."""

from __future__ import annotations

from myxtts.config.schema import Section, frozen_settings, setting


@frozen_settings
class AugmentationConfig(Section):
    """Random changes to clips and references in training."""

    section_name = "augmentation"
    speed: float = setting(
        0.0,
        "Clips and references are sped up or slowed down by up to this fraction.",
        least=0,
        most=0.3,
    )
    pitch_semitones: float = setting(
        0.0, "Voices are shifted up or down in pitch by up to this many semitones.", least=0, most=6
    )
    formants: float = setting(
        0.0,
        "Formants are shifted up or down by up to this fraction, independently of the pitch, as "
        "a shorter or longer vocal tract would.",
        least=0,
        most=0.3,
    )
    tone_db: float = setting(
        0.0,
        "Random equalisation: low, middle and high frequencies are boosted or cut by up to this "
        "much.",
        least=0,
        most=30,
    )
    gain_db: float = setting(
        0.0, "References are made louder or quieter by up to this much.", least=0, most=30
    )
    noise_dbfs: float | None = setting(
        None,
        "Noise of up to this level is added to references; null adds none.",
        least=-90,
        most=-10,
    )
