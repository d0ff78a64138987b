"""What a model size and an optimisation level stand for: only what differs from the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SIZES: dict[str, dict[str, Any]] = {
    # Trains usefully on two CPU cores; the defaults of ModelConfig.
    "tiny": {},
    "small": {
        "text_width": 192,
        "text_blocks": 5,
        "voice_width": 192,
        "voice_blocks": 3,
        "voice_latents": 16,
        "decoder_width": 320,
        "decoder_blocks": 10,
        "segment_frames": 128,
        "reference_frames": 256,
    },
    "normal": {
        "text_width": 256,
        "text_blocks": 6,
        "attention_heads": 4,
        "voice_width": 256,
        "voice_blocks": 4,
        "voice_latents": 32,
        "decoder_width": 512,
        "decoder_blocks": 14,
        "segment_frames": 192,
        "reference_frames": 256,
    },
    "big": {
        "text_width": 512,
        "text_blocks": 8,
        "attention_heads": 8,
        "voice_width": 512,
        "voice_blocks": 6,
        "voice_latents": 32,
        "decoder_width": 768,
        "decoder_blocks": 20,
        "segment_frames": 256,
        "reference_frames": 384,
    },
}

OPTIMIZATION_LEVELS: dict[str, dict[str, Any]] = {
    # The defaults of TrainingConfig: minutes to hours on clean recordings, nothing that costs time.
    "basic": {},
    # Hours to days on real recordings.
    "enhanced": {
        # Real voices differ more between batches: half the rate, reached ten times as slowly.
        "learning_rate": 1e-3,
        "warmup_steps": 1_000,
        # An average over a thousand steps, which a run of hours has to spare.
        "ema_decay": 0.999,
        # Clips are never quite the same twice: a small corpus is learnt by heart more slowly.
        "augment_speed": 0.05,
        # References come from other microphones and rooms than the corpus.
        "augment_gain_db": 6.0,
        "augment_noise_dbfs": -50.0,
    },
    # Large models, many voices, GPUs.
    "experimental": {
        # The wider a model, the smaller the steps that it takes without running away.
        "learning_rate": 5e-4,
        "warmup_steps": 4_000,
        # A rare large gradient moves a long run less.
        "clip_norm": 0.5,
        "beta_2": 0.99,
        "ema_decay": 0.9999,
        # Products in the short type: faster on GPUs that have it, a little slower on CPUs.
        "precision": "bfloat16",
        # Ready for --text-guidance and --voice-guidance. Off unless asked for: after a short run
        # speech was not clearer with them, and voices that were new were overdone.
        "text_drop_rate": 0.1,
        "voice_drop_rate": 0.1,
        "augment_speed": 0.1,
        "augment_gain_db": 10.0,
        "augment_noise_dbfs": -45.0,
        # Voices between those of the corpus, for cloning ones that it does not have.
        "augment_pitch_semitones": 1.0,
    },
}


def preset_of(section: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the size or level that is given for a section sets in it."""
    name, presets = _PRESETS.get(section, ("", {}))
    chosen = given.get(name)
    return presets.get(chosen, {}) if isinstance(chosen, str) else {}


_PRESETS = {"model": ("size", SIZES), "training": ("optimization_level", OPTIMIZATION_LEVELS)}
