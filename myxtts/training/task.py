"""What a run learns, apart from how the run goes.

The loop owns time, feed, saving and judging; it knows a task by this protocol alone, and no mel, no
text and no name of a loss. A new task is one file beside this one and one in `models`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import keras
import tensorflow as tf

from myxtts.data.feeding.sources import BatchSource
from myxtts.data.planning.schedule import PlannedBatch
from myxtts.data.planning.shapes import Shape, ShapePlan
from myxtts.runs.checkpoints import Checkpoint, CheckpointInfo
from myxtts.runs.tensor_files import Tensors
from myxtts.training.starting_weights import StartingWeights
from myxtts.training.watching.reporting import RunWriter


class BatchWork(NamedTuple):
    """Real work and computed work of a batch; the difference is padding."""

    real_frames: float
    computed_frames: float
    real_multiplications: float
    computed_multiplications: float


class Validation(Protocol):
    def run(self, step: int, writer: RunWriter) -> dict[str, float]:
        """The losses on fixed batches, named validation_*; writes samples and pictures."""


class Objective(Protocol):
    """What one step optimises. A batch is a named tuple of tensors."""

    def draw(self, batch_size: Any, seed: tf.Tensor) -> Any:
        """What is random about a step, for the whole batch, as a named tuple.

        `seed` is int32 [2].
        """

    def count(self, batch: Any) -> Any:
        """What the losses are averaged over, as a named tuple of scalars."""

    def losses(self, batch: Any, draws: Any, counts: Any) -> Any:
        """The parts of the loss as a named tuple of scalars; their sum is optimised.

        Of a share of a batch, so that the losses of all shares add up to those of the batch. The
        names of the fields are the names of the losses wherever a run shows them.
        """


class Task(Protocol):
    """`build` makes the model; everything but `source` needs it."""

    model: keras.Model

    def build(self) -> None:
        """Makes the model, in the scope of the strategy."""

    def source(self, *, data_device: str | None, worker: int, workers: int) -> BatchSource:
        """Where the training batches come from."""

    @property
    def objective(self) -> Objective: ...

    # Shapes and work.

    def signature(self, plan: ShapePlan | None = None) -> Any:
        """Specification of a batch: of the plan's one shape if it has only one, else of any."""

    def shape_of(self, batch: Any) -> Shape: ...

    def blank_batch(self, shape: Shape, shares: int) -> Any:
        """A batch with nothing in it, to compile and to try the memory with."""

    def load(self, planned: PlannedBatch) -> Any:
        """One training batch, loaded here and now."""

    def work_of(self, batch: Any) -> BatchWork: ...

    # Around the steps.

    def find_first_weights(self, on_phase: Callable[[str], None]) -> bool:
        """Sets what can be found without training; whether there was anything to set."""

    def compile_validation(self) -> Validation: ...

    # Checkpoints.

    def checkpoint_facts(self) -> Mapping[str, Any]:
        """Fields of `CheckpointInfo` that belong to the weights."""

    def take_facts(self, info: CheckpointInfo) -> None:
        """Of a checkpoint whose weights are taken over."""

    def require_fit(self, checkpoint: Checkpoint) -> None:
        """Raises a CheckpointError if a run cannot go on from the checkpoint with this corpus."""

    def starting_weights(
        self, checkpoint: Checkpoint, own: Tensors, *, partially: bool
    ) -> StartingWeights:
        """The EMA weights of another run for this model, which has `own`."""
