"""Settings of the model's size."""

from __future__ import annotations

from typing import ClassVar

from myxtts.config.schema import Section, frozen_settings, setting

MODEL_SIZES = ("tiny", "base", "small", "normal", "big")
# The voice encoder works on groups of this many frames: a voice changes slowly.
VOICE_STEP_FRAMES = 4


@frozen_settings
class ModelConfig(Section):
    """Size of each part of the model; `size` sets all of them, and single settings override it."""

    section_name = "model"
    size: str = setting("tiny", "Preset for all settings below.", choices=MODEL_SIZES)
    # Mel frames that the text encoder, the alignment and the decoder treat as one position: two
    # halve their cost, and no phoneme is shorter.
    frames_per_position: ClassVar[int] = 2
    text_width: int = setting(128, "Channels in the text encoder.", least=8, most=2_048)
    text_blocks: int = setting(4, "Blocks in the text encoder.", least=1, most=64)
    attention_heads: int = setting(2, "Heads in every attention layer.", least=1, most=64)
    voice_width: int = setting(
        128, "Channels in the voice encoder, and the size of the voice vector.", least=8, most=2_048
    )
    voice_blocks: int = setting(2, "Blocks in the voice encoder.", least=1, most=64)
    voice_latents: int = setting(
        8, "Voice latents that the decoder attends to.", least=1, most=1_024
    )
    frame_width: int = setting(192, "Channels in the frame encoder.", least=8, most=2_048)
    frame_blocks: int = setting(
        0,
        "Blocks of the frame encoder at each of its five stages; 0 leaves it out, and the decoder "
        "is conditioned on the text encoder itself.",
        least=0,
        most=64,
    )
    decoder_width: int = setting(192, "Channels in the decoder.", least=8, most=2_048)
    decoder_blocks: int = setting(8, "Blocks in the decoder.", least=1, most=64)
    kernel_positions: int = setting(
        7, "Kernel size of the depthwise convolutions, in positions.", least=1, most=63
    )
    segment_frames: int = setting(
        96, "Mel frames of each clip that the decoder is trained on per step.", least=16, most=8_192
    )
    reference_frames: int = setting(
        192,
        "Mel frames of reference audio per clip in training, from another recording of the same "
        "speaker.",
        least=32,
        most=8_192,
    )
