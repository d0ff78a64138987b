"""Losses and gradients that are no numbers, and losses that jump.

The compiled step has already left out the update of a bad step. This module names the clips of
such a step, says when it is time to go back to a checkpoint, and when there is no hope.
"""

from __future__ import annotations

import json
import logging
import math
import statistics
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.batch import Batch
from myxtts.data.opening import CorpusPart
from myxtts.errors import CheckpointError, NonFiniteLossError
from myxtts.runs.checkpoints import step_name
from myxtts.runs.sealed_folder import write_sealed_folder
from myxtts.training.step import StepResult

_log = logging.getLogger(__name__)

RATE_FACTOR = 0.5
_BAD_STEPS_BEFORE_GOING_BACK = 5
_MOST_RETURNS = 3
# So many good steps in a row, and what was before counts no more.
_GOOD_STEPS_TO_FORGET = 500
_REMEMBERED_LOSSES = 100
_FEWEST_LOSSES = 20
# The losses of batches differ by their clips; a spike is beyond that.
_SPIKE = 3.0
_NAMED_CLIPS = 8


class TooManyBadStepsError(Exception):
    """Training has to go back; caught by the trainer, which does."""


class BadNumbers:
    def __init__(self, part: CorpusPart, evidence: Path | None) -> None:
        """`evidence` is where the last batch is kept; of several machines one keeps it."""
        self._part = part
        self._evidence = evidence
        self._losses: deque[float] = deque(maxlen=_REMEMBERED_LOSSES)
        self.in_a_row = self._returns = self._good_steps = 0
        self._on_a_spike = False

    def check(
        self, step: int, batch: Batch, result: StepResult, *, scale_may_be_too_large: bool = False
    ) -> None:
        """To be called after every step, with the batch that it was trained on.

        Too large a loss scale shows as a gradient that is not finite, and halves by itself.
        """
        loss, norm = float(result.loss), float(result.gradient_norm)
        if math.isfinite(loss) and not math.isfinite(norm) and scale_may_be_too_large:
            return
        if math.isfinite(loss) and math.isfinite(norm):
            self.in_a_row = 0
            self._good_steps += 1
            if self._good_steps >= _GOOD_STEPS_TO_FORGET:
                self._returns = 0
            self._look_for_spike(step, loss)
            return
        self.in_a_row += 1
        self._good_steps = 0
        _log.warning(
            "step %d was left out: its loss is %g and its gradient's norm %g; clips: %s",
            *(step, loss, norm, self._names(step)),
        )
        if self.in_a_row < _BAD_STEPS_BEFORE_GOING_BACK:
            return
        self.in_a_row = 0
        self._returns += 1
        if self._returns <= _MOST_RETURNS:
            raise TooManyBadStepsError
        raise NonFiniteLossError(
            f"{_BAD_STEPS_BEFORE_GOING_BACK} steps in a row up to step {step} gave no finite loss "
            f"or gradient, also after {_MOST_RETURNS} returns with a lower learning rate; "
            f"{self._evidence_of(step, batch, result)}: listen to its clips, or lower "
            "training.learning_rate"
        )

    def _evidence_of(self, step: int, batch: Batch, result: StepResult) -> str:
        if self._evidence is None:
            return "the chief has kept the last batch"
        folder = self._evidence / step_name(step)
        try:
            self._save_evidence(folder, step, batch, result)
        except CheckpointError as error:
            return f"the last batch could not be kept ({error})"
        return f"the last batch is in {folder}"

    def _look_for_spike(self, step: int, loss: float) -> None:
        if len(self._losses) >= _FEWEST_LOSSES:
            median = statistics.median(self._losses)
            was_on_a_spike, self._on_a_spike = self._on_a_spike, loss > _SPIKE * median
            if self._on_a_spike and not was_on_a_spike:
                _log.warning(
                    "step %d: the loss of %.3g is far above its median of %.3g; clips: %s",
                    *(step, loss, median, self._names(step)),
                )
        self._losses.append(loss)

    def _clips(self, step: int) -> list[int]:
        return [int(clip) for clip in self._part.schedule.batch_at(step - 1).clips]

    def _names(self, step: int) -> str:
        clips = self._clips(step)
        names = [str(self._part.cache.audio_path(clip)) for clip in clips[:_NAMED_CLIPS]]
        more = len(clips) - len(names)
        return ", ".join(names) + (f" and {more} more" if more else "")

    def _save_evidence(self, folder: Path, step: int, batch: Batch, result: StepResult) -> None:
        cache = self._part.cache
        clips = [
            {"audio": str(cache.audio_path(clip)), "text": cache.text(clip)}
            for clip in self._clips(step)
        ]
        values = {
            "loss": result.loss,
            "gradient_norm": result.gradient_norm,
            "learning_rate": result.learning_rate,
            **result.parts._asdict(),
        }
        # JSON has no NaN.
        content: dict[str, Any] = {
            "step": step,
            "metrics": {name: str(float(value)) for name, value in values.items()},
            "clips": clips,
        }
        write_sealed_folder(
            folder,
            {
                "batch.safetensors": {
                    name: np.asarray(value) for name, value in batch._asdict().items()
                },
                "evidence.json": json.dumps(content, ensure_ascii=False, indent=1).encode(),
            },
        )
