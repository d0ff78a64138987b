"""Settings of the model's size."""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.config.schema import Section, setting

MODEL_SIZES = ("tiny", "small", "normal", "big")
# A voice changes slowly: the voice encoder looks at so many frames at a time.
VOICE_STEP_FRAMES = 4


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Section):
    """Sizes of the parts of the model; `size` sets all of them, single settings override it."""

    section_name = "model"
    size: str = setting("tiny", "Preset for every setting below.", choices=MODEL_SIZES)
    frames_per_position: int = setting(
        2,
        "Mel frames that text encoder, alignment and decoder treat as one position: "
        "2 halves their cost.",
        least=1,
        most=4,
    )
    text_width: int = setting(128, "Channels of the text encoder.", least=8, most=2_048)
    text_blocks: int = setting(4, "Blocks of the text encoder.", least=1, most=64)
    attention_heads: int = setting(2, "Heads of every attention.", least=1, most=64)
    voice_width: int = setting(
        128, "Channels of the voice encoder and its vector.", least=8, most=2_048
    )
    voice_blocks: int = setting(2, "Blocks of the voice encoder.", least=1, most=64)
    voice_latents: int = setting(
        8, "Latent voice tokens that the decoder attends to.", least=1, most=1_024
    )
    decoder_width: int = setting(192, "Channels of the decoder.", least=8, most=2_048)
    decoder_blocks: int = setting(8, "Blocks of the decoder.", least=1, most=64)
    kernel_positions: int = setting(7, "Width of the depthwise convolutions.", least=1, most=63)
    segment_frames: int = setting(
        96, "Mel frames of each clip that the decoder is trained on per step.", least=16, most=8_192
    )
    reference_frames: int = setting(
        192,
        "Mel frames of another recording that show the voice in training.",
        least=32,
        most=8_192,
    )
