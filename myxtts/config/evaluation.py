"""Settings of evaluation during a run."""

from __future__ import annotations

from myxtts.config.metrics import JUDGING_METRICS
from myxtts.config.schema import Section, frozen_settings, setting


@frozen_settings
class EvaluationConfig(Section):
    """Evaluation during training, choice of the best checkpoint, and early stopping."""

    section_name = "evaluation"
    evaluate_every: int = setting(
        500,
        "Steps between evaluations; each gives validation losses, an alignment and a speech "
        "sample.",
        least=1,
    )
    measure_every: int | None = setting(
        None,
        "The checkpoint of every n-th evaluation is also scored by a background process, as "
        "`myxtts evaluate` does; null turns this off.",
        least=1,
    )
    measured_sentences: int = setting(24, "Number of held-out sentences to score.", least=1)
    best_metric: str | None = setting(
        None,
        "Metric that selects the best checkpoint; one whose name does not begin with validation "
        "needs measure_every. null: wer, measured in the background at every evaluation, where "
        "the extra eval is installed and English is spoken; else validation_mel_distance.",
        choices=JUDGING_METRICS,
    )
    early_stopping_evaluations: int | None = setting(
        None,
        "Stop after this many evaluations without an improvement of best_metric; null never "
        "stops early.",
        least=1,
    )
