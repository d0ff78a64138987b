"""Settings of evaluation during a run."""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.config.metrics import JUDGING_METRICS
from myxtts.config.schema import Section, setting


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(Section):
    """Evaluation, the best checkpoint and early stopping."""

    section_name = "evaluation"
    evaluate_every: int = setting(
        500, "Steps between evaluations, each with losses, an alignment and a sample.", least=1
    )
    measure_every: int | None = setting(
        None,
        "Every so many evaluations a checkpoint is also measured as `myxtts evaluate` does, in a "
        "process beside the run; null: never.",
        least=1,
    )
    measured_sentences: int = setting(12, "Held-out sentences that are measured.", least=1)
    best_metric: str = setting(
        "validation_loss",
        "What chooses the best checkpoint; one that is no loss needs measure_every.",
        choices=JUDGING_METRICS,
    )
    early_stopping_evaluations: int | None = setting(
        None,
        "Stop after so many evaluations in which best_metric did not get better; null: never.",
        least=1,
    )
