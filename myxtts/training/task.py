"""What is trained, apart from how a run proceeds.

The loop handles timing, input, saving and evaluation. It knows a task only by this protocol: no
mels, no text and no names of losses. A new task is one file next to this one and one in `models`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import keras
import tensorflow as tf

from myxtts.data.pipeline import BatchSource
from myxtts.data.schedule import PlannedBatch
from myxtts.data.shapes import Shape, ShapePlan
from myxtts.runs.checkpoint import Checkpoint, CheckpointInfo, Tensors
from myxtts.training.optimizer import Rest
from myxtts.training.starting_weights import StartingWeights
from myxtts.training.watching.reporting import RunWriter


class BatchWork(NamedTuple):
    """Real and computed work of a batch; the difference is padding."""

    real_frames: float
    computed_frames: float
    real_multiplications: float
    computed_multiplications: float


class Validation(Protocol):
    def run(self, step: int, writer: RunWriter) -> dict[str, float]:
        """The losses on fixed batches, named validation_*; writes samples and plots."""


class Objective(Protocol):
    """What one step optimises. A batch is a named tuple of tensors."""

    def draw(self, batch_size: Any, seed: tf.Tensor) -> Any:
        """The random numbers of a step, for the global batch, as a named tuple.

        `seed` is int32 [2]: the seed of the run, and the step.
        """

    def count(self, batch: Any) -> Any:
        """The denominators of the losses, as a named tuple of scalars."""

    def losses(self, batch: Any, draws: Any, counts: Any) -> Any:
        """The parts of the loss as a named tuple of scalars; their sum is optimised.

        The losses of all shares of a batch add up to those of the batch. The field names are the
        names of the losses wherever a run shows them.
        """


class LaterPart(NamedTuple):
    """Of a run, with more to compute in every step."""

    first_step: int
    times_as_long: float

    def time_of_steps(self, count: int) -> float:
        return count + max(0, count - self.first_step) * (self.times_as_long - 1.0)


class Task(Protocol):
    """`build` creates the model; everything except `source` and what a run shows needs it."""

    model: keras.Model

    def build(self) -> None:
        """Creates the model; call it in the strategy's scope."""

    def prepare_mels(self, on_progress: Callable[[int, int], None]) -> None:
        """Makes what `source` needs beyond the corpus; says how many clips are done."""

    def source(self, *, data_device: str | None, worker: int, workers: int) -> BatchSource:
        """Where the training batches come from."""

    @property
    def objective(self) -> Objective: ...

    @property
    def rest(self) -> Rest | None:
        """Which weights are learnt in the first part of a run only."""

    # Shapes and work.

    def signature(self, plan: ShapePlan | None = None) -> Any:
        """Signature of a batch: with the plan's shape if it has only one, else with any shape."""

    def shape_of(self, batch: Any) -> Shape: ...

    def blank_batch(self, shape: Shape, shares: int) -> Any:
        """An empty batch, to compile with and to test memory."""

    def load(self, planned: PlannedBatch) -> Any:
        """One training batch, loaded here and now."""

    def work_of(self, batch: Any) -> BatchWork: ...

    # Around the steps.

    def time_of_steps(self, count: int) -> float:
        """How long the first `count` steps of a run take, in the time of the shortest one."""

    def find_first_weights(self, on_phase: Callable[[str], None]) -> bool:
        """Sets weights that can be estimated without training; returns whether it set any."""

    def compile_validation(self) -> Validation: ...

    # What a run shows.

    def describe_shapes(self) -> str:
        """The shapes of the training batches and how much of them is padding."""

    def next_command(self, run_dir: Path) -> str:
        """The command to try when the run is complete."""

    # Checkpoints.

    def data_fingerprints(self) -> dict[str, str]:
        """What a resumed run must find again, by name: how much there is, a space, a checksum."""

    def checkpoint_facts(self) -> Mapping[str, Any]:
        """The fields of `CheckpointInfo` that depend on the task."""

    def take_facts(self, info: CheckpointInfo) -> None:
        """Restores those fields from a checkpoint whose weights were loaded."""

    def require_memory(self) -> None:
        """Raises a DeviceError if the model to be built fits no memory of this machine."""

    def require_model(self, checkpoint: Checkpoint) -> None:
        """Raises a CheckpointError unless its weights are those of the model to be built."""

    def require_fit(self, checkpoint: Checkpoint) -> None:
        """Raises a CheckpointError if the checkpoint cannot be resumed with this corpus."""

    def starting_weights(
        self, checkpoint: Checkpoint, own: Tensors, *, partially: bool
    ) -> StartingWeights:
        """The EMA weights of another run for this model, whose own weights are `own`."""
