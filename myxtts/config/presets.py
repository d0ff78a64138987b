"""Presets for model sizes and optimisation levels: only what differs from the defaults."""

from __future__ import annotations

from typing import Any

from myxtts.config.schema import Layer

SIZES: dict[str, dict[str, Any]] = {
    # Trains usefully on two CPU cores; the defaults of ModelConfig.
    "tiny": {},
    # The included base model.
    "base": {"decoder_width": 256},
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

# By section: a level sets more than the optimiser.
OPTIMIZATION_LEVELS: dict[str, Layer] = {
    # The defaults: minutes to hours on clean recordings, nothing that costs time.
    "basic": {},
    # Hours to days on real recordings.
    "enhanced": {
        "training": {
            # Real voices differ more between batches: half the rate, reached ten times as slowly.
            "learning_rate": 1e-3,
            "warmup_steps": 1_000,
            # An average over a thousand steps, which a run of hours has to spare.
            "ema_decay": 0.999,
        },
        "augmentation": {
            # Clips are never quite the same twice: a small corpus is memorised more slowly.
            "speed": 0.05,
            # References come from other microphones and rooms than the corpus.
            "gain_db": 6.0,
            "noise_dbfs": -50.0,
        },
    },
    # Large models, many voices, GPUs.
    "experimental": {
        "training": {
            # The wider a model, the smaller the steps that it takes without diverging.
            "learning_rate": 5e-4,
            "warmup_steps": 4_000,
            # A rare large gradient moves a long run less.
            "clip_norm": 0.5,
            "ema_decay": 0.9999,
            # Products in the short type: faster on GPUs that have it, a little slower on CPUs.
            "precision": "bfloat16",
            # Ready for --voice-guidance, which is off unless asked for: voices that were new were
            # overdone by it.
            "voice_drop_rate": 0.1,
        },
        "augmentation": {
            "speed": 0.1,
            "gain_db": 10.0,
            "noise_dbfs": -45.0,
            # Voices between those of the corpus, for cloning ones that it does not have.
            "pitch_semitones": 1.0,
        },
    },
}

# By task; none sets what a level sets.
TASKS: dict[str, Layer] = {
    "vocoder": {
        "training": {
            # Some hundred steps of some thousand for the magnitudes: longer training sharpens them
            # more than sounds well.
            "adversarial_start": 0.1,
        },
        # There is no text to be understood, and the losses say little of the sound.
        "evaluation": {"best_metric": "validation_mel_distance"},
    },
}


def without_presets(settings: Layer, changes: Layer) -> Layer:
    """The settings without those that a size, level or task which is being changed may have set."""
    dropped: set[tuple[str, str]] = set()
    if "size" in changes.get("model", {}):
        dropped |= {("model", name) for size in SIZES.values() for name in size}
    for setting, presets in (("optimization_level", OPTIMIZATION_LEVELS), ("task", TASKS)):
        if setting in changes.get("training", {}):
            dropped |= {
                (section, name)
                for preset in presets.values()
                for section, values in preset.items()
                for name in values
            }
    return {
        section: {name: value for name, value in values.items() if (section, name) not in dropped}
        for section, values in settings.items()
    }


def presets_of(given: Layer) -> Layer:
    """What the size, the level and the task among the given settings set, by section."""
    training = given.get("training", {})
    size = given.get("model", {}).get("size")
    presets: Layer = {"model": SIZES.get(size, {}) if isinstance(size, str) else {}}
    for name, named in (("optimization_level", OPTIMIZATION_LEVELS), ("task", TASKS)):
        chosen = training.get(name)
        for section, values in (named.get(chosen, {}) if isinstance(chosen, str) else {}).items():
            presets[section] = presets.get(section, {}) | values
    return presets
