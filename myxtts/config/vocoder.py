"""Settings of the vocoder: its size, and how it is trained."""

from __future__ import annotations

from myxtts.config.schema import Section, frozen_settings, setting


@frozen_settings
class VocoderConfig(Section):
    """Size and training of the vocoder (`training.task: vocoder`)."""

    section_name = "vocoder"
    width: int = setting(224, "Channels of the vocoder.", least=8, most=2_048)
    blocks: int = setting(
        4, "Blocks of the part that predicts magnitudes from a mel.", least=1, most=64
    )
    refining_blocks: int = setting(
        4,
        "Blocks of the part that corrects the spectrum after the search for phases.",
        least=1,
        most=64,
    )
    frames_per_segment: int = setting(
        64, "Mel frames of each clip that the vocoder is trained on per step.", least=16, most=8_192
    )
    mels_from: str | None = setting(
        None,
        "A trained run, or base: the vocoder is trained on the mels that it predicts for the clips "
        "as well, and learns to mend them. Recordings are not changed by augmentation then.",
    )
