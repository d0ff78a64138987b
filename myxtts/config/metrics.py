"""The metrics of a run for which lower or higher is better, and which of the two.

Losses come from every evaluation of a run, measures from `myxtts.evaluation`. Measures that have
no better direction of their own, such as the pace of speech, are not here.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class LossParts(NamedTuple):
    """The parts of the loss of `myxtts.models.xtts`: their names stand here and nowhere else."""

    prior: Any
    duration: Any
    mel: Any
    flow: Any
    adversarial: Any
    phoneme: Any


class VocoderLossParts(NamedTuple):
    """The same for `myxtts.models.vocoder_training`."""

    spectral: Any
    refining: Any
    discriminator: Any


TRAINING_LOSSES = (
    "loss",
    *(f"{name}_loss" for name in (*LossParts._fields, *VocoderLossParts._fields)),
)
VALIDATION_LOSSES = tuple(f"validation_{name}" for name in TRAINING_LOSSES)

LOWER_IS_BETTER = dict.fromkeys((*TRAINING_LOSSES, *VALIDATION_LOSSES), True) | {
    "validation_mel_distance": True,
    "wer": True,
    "cer": True,
    "similarity": False,
    "own_similarity": False,
    "dnsmos": False,
    "distillmos": False,
    "mel_cepstral_distance": True,
    "pitch_error": True,
    "voicing_error": True,
    "clipping": True,
    "real_time_factor": True,
}
# What the included recogniser is; without it no words can be counted during a run.
RECOGNISER_PACKAGE = "moonshine_voice"
RECOGNISER_LANGUAGES = ("en",)
# Training losses are those of single batches: too uneven to judge by.
JUDGING_METRICS = tuple(name for name in LOWER_IS_BETTER if name not in TRAINING_LOSSES)
MEASURES = tuple(name for name in JUDGING_METRICS if not name.startswith("validation_"))
