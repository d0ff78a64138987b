"""The figures by which a checkpoint can be judged, and which way each of them is better.

Losses come from every evaluation of a run, measures from `myxtts.evaluation`. Measures that have
no better direction of their own, such as the pace of speech, are not here.
"""

from __future__ import annotations

LOSSES = (
    "validation_loss",
    "validation_prior_loss",
    "validation_duration_loss",
    "validation_flow_loss",
)

LOWER_IS_BETTER = dict.fromkeys(LOSSES, True) | {
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
