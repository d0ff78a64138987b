"""How long a run is when nobody said so: passes over the corpus, within bounds."""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.config.config import TrainingConfig

# What is learnt of a clip grows with how often it is seen, and so the length with the corpus. A
# hundred passes over a day of speech, some 13,000 clips, are 80,000 batches of 16.
DEFAULT_PASSES = 100
# However few the clips, the weights have as far to go. The demo's 1,200 steps make speech that a
# recogniser follows, with half as many errors again as in copies of the recordings: a run that is
# to end well takes a few times as many.
LEAST_STEPS = 4_000
# However many the clips, a run that nobody gave a length comes to an end: this one after sixteen
# hours of the tiny model at the demo's pace. Whoever has the data for more asks for it.
MOST_STEPS = 200_000


@dataclass(frozen=True)
class RunLength:
    steps: int
    passes: float
    reason: str

    def __str__(self) -> str:
        passes = f"{self.passes:,.0f}" if self.passes >= 10 else f"{self.passes:.2g}"
        return f"{self.steps:,} steps, {passes} passes over the corpus: {self.reason}"


def run_length(training: TrainingConfig, batches_per_epoch: float) -> RunLength:
    """max_steps, or epochs in steps, or what suits a corpus of so many batches."""
    if training.max_steps is not None:
        return _steps(training.max_steps, batches_per_epoch, "training.max_steps")
    if training.epochs is not None:
        return _passes(training.epochs, batches_per_epoch, "training.epochs")
    default = _passes(DEFAULT_PASSES, batches_per_epoch, "the default, worked out from the corpus")
    bound = min(max(default.steps, LEAST_STEPS), MOST_STEPS)
    if bound == default.steps:
        return default
    which = "least" if bound == LEAST_STEPS else "most"
    reason = f"the {which} by default, {DEFAULT_PASSES} passes are {default.steps:,} steps"
    return _steps(bound, batches_per_epoch, reason)


def _steps(steps: int, batches_per_epoch: float, reason: str) -> RunLength:
    return RunLength(steps, steps / batches_per_epoch, reason)


def _passes(passes: int, batches_per_epoch: float, reason: str) -> RunLength:
    return RunLength(round(passes * batches_per_epoch), passes, reason)
