"""The interface between the training loop and what is trained.

The loop handles timing, input, saving and evaluation. It uses a task only through this class and
never refers to mels, text or names of losses. A new task is one file next to this one and one in
`models`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import keras
import tensorflow as tf

from myxtts.data.pipeline import BatchSource
from myxtts.data.schedule import PlannedBatch
from myxtts.data.shapes import Shape, ShapePlan
from myxtts.runs.checkpoint import Checkpoint, Tensors
from myxtts.training.optimizer import FreezeAfter
from myxtts.training.warm_start import WarmStart

if TYPE_CHECKING:
    from myxtts.training.output import RunWriter


class BatchWork(NamedTuple):
    """Real and computed work of a batch; the difference is padding."""

    real_frames: float
    computed_frames: float
    real_multiplications: float
    computed_multiplications: float


class Validation(Protocol):
    def run(self, step: int, writer: RunWriter) -> dict[str, float]:
        """Return the losses on fixed batches, named validation_*; write samples and plots."""


class Objective(Protocol):
    """The loss of a step. A batch is a named tuple of tensors."""

    def draw(self, batch_size: Any, seed: tf.Tensor) -> Any:
        """Return the random numbers of a step, for the global batch, as a named tuple.

        `seed` is int32 [2]: the seed of the run, and the step.
        """

    def count(self, batch: Any) -> Any:
        """Return the denominators of the losses, as a named tuple of scalars."""

    def losses(self, batch: Any, draws: Any, counts: Any) -> Any:
        """Return the parts of the loss as a named tuple of scalars; their sum is minimized.

        The losses of all micro-batches add up to those of the batch. The field names are the names
        of the losses wherever a run shows them.
        """


class Task:
    """A model with its data and objective. Methods with a body here are optional."""

    model: keras.Model
    freeze_after: FreezeAfter | None = None
    """Weights that are trained in the first part of a run only; known after `build`."""

    def build(self) -> None:
        """Create the model, in the strategy's scope."""
        raise NotImplementedError

    @property
    def objective(self) -> Objective:
        raise NotImplementedError

    def prepare(self, on_progress: Callable[[int, int], None]) -> None:
        """Prepare the data that `source` needs in addition to the corpus."""

    def initialize(self, on_phase: Callable[[str], None]) -> bool:
        """Set weights that can be estimated without training; return whether any was set."""
        return False

    def relative_time(self, steps: int) -> float:
        """Return the time of the first `steps` steps in units of the shortest one."""
        return float(steps)

    # Batches.

    def source(self, *, data_device: str | None, worker: int, workers: int) -> BatchSource:
        raise NotImplementedError

    def signature(self, plan: ShapePlan | None = None) -> Any:
        """Return the signature of a batch, with the plan's shape if it has only one."""
        raise NotImplementedError

    def shape_of(self, batch: Any) -> Shape:
        raise NotImplementedError

    def work_of(self, batch: Any) -> BatchWork:
        raise NotImplementedError

    def blank_batch(self, shape: Shape, shares: int) -> Any:
        """Return an empty batch, to compile with and to test memory."""
        raise NotImplementedError

    def load(self, planned: PlannedBatch) -> Any:
        """Load and return one training batch."""
        raise NotImplementedError

    def fingerprints(self) -> dict[str, str]:
        """Return counts and checksums, by name, that must match when a run is resumed."""
        raise NotImplementedError

    # Validation and checkpoints.

    def compile_validation(self) -> Validation:
        raise NotImplementedError

    def state(self) -> Mapping[str, Any]:
        """Return the fields of `CheckpointInfo` that belong to the task."""
        raise NotImplementedError

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore what `state` returned; a CheckpointError if the corpus does not fit it."""

    def warm_start(self, checkpoint: Checkpoint, own: Tensors, *, partially: bool) -> WarmStart:
        """Return the EMA weights of another run for this model, whose own weights are `own`."""
        raise NotImplementedError

    def next_command(self, run_dir: Path) -> str:
        """Return the command to try when the run is complete."""
        raise NotImplementedError


def relative_time(steps: int, first_slow_step: int, slowdown: float) -> float:
    """Return the time of `steps` steps of which those from `first_slow_step` on take longer."""
    return steps + max(0, steps - first_slow_step) * (slowdown - 1.0)
