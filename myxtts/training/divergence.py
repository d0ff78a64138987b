"""Detects non-finite losses and gradients, and loss spikes.

The compiled step has already skipped the update of a bad step. This module logs the clips of such
a step, and decides when to roll back to a checkpoint and when to give up.
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

from myxtts.data.batch import Batch
from myxtts.data.corpus import CorpusPart
from myxtts.errors import CheckpointError, NonFiniteLossError
from myxtts.runs.checkpoint import step_name, write_sealed_folder
from myxtts.training.step import StepResult

_log = logging.getLogger(__name__)

RATE_FACTOR = 0.5
_BAD_STEPS_BEFORE_ROLLBACK = 5
_MAX_ROLLBACKS = 3
# After this many good steps in a row, earlier rollbacks no longer count.
_GOOD_STEPS_TO_FORGET = 500
_REMEMBERED_LOSSES = 100
_MIN_LOSSES = 20
# Losses vary from batch to batch; a spike is beyond that, as a multiple of the median.
_SPIKE = 3.0
_NAMED_CLIPS = 8


class TooManyBadStepsError(Exception):
    """Training has to roll back; caught by the trainer."""


class DivergenceMonitor:
    def __init__(self, part: CorpusPart, evidence: Path | None) -> None:
        """Guard a run; `evidence` is the chief's folder for the last bad batch."""
        self._part = part
        self._evidence = evidence
        self._losses: deque[float] = deque(maxlen=_REMEMBERED_LOSSES)
        self.in_a_row = self._rollbacks = self._good_steps = 0
        self._on_a_spike = False

    def check(
        self, step: int, batch: Batch, result: StepResult, *, scale_may_be_too_large: bool = False
    ) -> None:
        """Call this after every step, with its batch.

        A loss scale that is too large gives a non-finite gradient and is halved automatically.
        """
        loss, norm = float(result.loss), float(result.gradient_norm)
        if math.isfinite(loss) and not math.isfinite(norm) and scale_may_be_too_large:
            return
        if math.isfinite(loss) and math.isfinite(norm):
            self.in_a_row = 0
            self._good_steps += 1
            if self._good_steps >= _GOOD_STEPS_TO_FORGET:
                self._rollbacks = 0
            self._look_for_spike(step, loss)
            return
        self.in_a_row += 1
        self._good_steps = 0
        _log.warning(
            "skipped step %d: loss %g, gradient norm %g; clips: %s",
            *(step, loss, norm, self._names(step)),
        )
        if self.in_a_row < _BAD_STEPS_BEFORE_ROLLBACK:
            return
        self.in_a_row = 0
        self._rollbacks += 1
        if self._rollbacks <= _MAX_ROLLBACKS:
            raise TooManyBadStepsError
        raise NonFiniteLossError(
            f"{_BAD_STEPS_BEFORE_ROLLBACK} steps in a row up to step {step} had a non-finite loss "
            f"or gradient, even after {_MAX_ROLLBACKS} rollbacks with a lower learning rate; "
            f"{self._evidence_of(step, batch, result)}: listen to its clips, or lower "
            "training.learning_rate"
        )

    def _evidence_of(self, step: int, batch: Batch, result: StepResult) -> str:
        if self._evidence is None:
            return "the chief has saved the last batch"
        folder = self._evidence / step_name(step)
        try:
            self._save_evidence(folder, step, batch, result)
        except CheckpointError as error:
            return f"the last batch could not be saved ({error})"
        return f"the last batch is in {folder}"

    def _look_for_spike(self, step: int, loss: float) -> None:
        if len(self._losses) >= _MIN_LOSSES:
            median = statistics.median(self._losses)
            was_on_a_spike, self._on_a_spike = self._on_a_spike, loss > _SPIKE * median
            if self._on_a_spike and not was_on_a_spike:
                _log.warning(
                    "step %d: loss spike, %.3g against a median of %.3g; clips: %s",
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
