"""Length of a run: as configured, or a default number of epochs within bounds."""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.config.config import TrainingConfig
from myxtts.wording import plural

# 100 epochs of 24 hours of speech, about 13,000 clips, are 80,000 batches of 16.
DEFAULT_EPOCHS = 100
# A small corpus needs as many steps as a larger one to converge. After the 1,200 steps of the demo,
# a recogniser makes 1.5 times as many errors as on copies of the recordings; a good model takes a
# few times as many steps.
LEAST_STEPS = 4_000
# A run without a configured length must end even on a large corpus: this is about 16 hours of the
# tiny model at the demo's speed.
MOST_STEPS = 200_000


@dataclass(frozen=True)
class RunLength:
    steps: int
    epochs: float
    reason: str

    def __str__(self) -> str:
        epochs = f"{self.epochs:,.0f}" if self.epochs >= 10 else f"{self.epochs:.2g}"
        unit = plural(1 if epochs == "1" else 2, "epoch")
        return f"{self.steps:,} {plural(self.steps, 'step')} ({epochs} {unit}); {self.reason}"


def run_length(training: TrainingConfig, batches_per_epoch: float) -> RunLength:
    """By max_steps, by epochs, or the default for a corpus with so many batches."""
    if training.max_steps is not None:
        return _steps(training.max_steps, batches_per_epoch, "set by training.max_steps")
    if training.epochs is not None:
        return _epochs(training.epochs, batches_per_epoch, "set by training.epochs")
    default = _epochs(DEFAULT_EPOCHS, batches_per_epoch, "the default for this corpus")
    bound = min(max(default.steps, LEAST_STEPS), MOST_STEPS)
    if bound == default.steps:
        return default
    beyond = (
        f"only {default.steps:,} steps, below the default minimum"
        if bound == LEAST_STEPS
        else f"{default.steps:,} steps, above the default maximum"
    )
    reason = f"{DEFAULT_EPOCHS} epochs would be {beyond}. Change it with --max-steps."
    return _steps(bound, batches_per_epoch, reason)


def _steps(steps: int, batches_per_epoch: float, reason: str) -> RunLength:
    return RunLength(steps, steps / batches_per_epoch, reason)


def _epochs(epochs: int, batches_per_epoch: float, reason: str) -> RunLength:
    return RunLength(round(epochs * batches_per_epoch), epochs, reason)
