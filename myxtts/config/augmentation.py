"""Settings of data augmentation."""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.config.schema import Section, setting


@dataclass(frozen=True, kw_only=True)
class AugmentationConfig(Section):
    """Random changes to clips and references in training."""

    section_name = "augmentation"
    speed: float = setting(
        0.0, "Clips are made up to this share faster or slower.", least=0, most=0.3
    )
    pitch_semitones: float = setting(
        0.0, "Voices are made up to this much higher or lower.", least=0, most=6
    )
    formants: float = setting(
        0.0,
        "Voices get resonances up to this share higher or lower, whatever their pitch, as those of "
        "shorter and longer throats.",
        least=0,
        most=0.3,
    )
    tone_db: float = setting(
        0.0,
        "Voices get low, middle and high sounds up to this much louder or softer than others.",
        least=0,
        most=30,
    )
    gain_db: float = setting(
        0.0, "References are made up to this much louder or softer.", least=0, most=30
    )
    noise_dbfs: float | None = setting(
        None, "References get noise up to this level; null: none.", least=-90, most=-10
    )
