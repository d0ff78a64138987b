"""The training step: compiled, warmed up and tested once, then run and monitored.

`compile_training_step` owns micro-batches, gradients, clipping, the update and the EMA.
"""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import tensorflow as tf

from myxtts.config.config import TrainingConfig, XTTSConfig
from myxtts.data.shapes import Shape, ShapePlan
from myxtts.devices.function_names import start_names_at_round_number
from myxtts.devices.strategy import model_scope, place_of, sum_over_replicas, uses_xla
from myxtts.errors import DataError, DeviceError, plural
from myxtts.training.optimizer import Optimizer
from myxtts.training.task import Objective, Task
from myxtts.training.time_account import TimeAccount

_log = logging.getLogger(__name__)

# Errors that TensorFlow raises in a collective when another machine stops responding.
LOST_MACHINE_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)
# The mean of equal sums can differ from them by rounding.
_TOLERANCE = 1e-6
# Two steps take seconds, with several machines on a slow network minutes.
_MAX_TRIAL_SECONDS = 600.0

# done, total
OnProgress = Callable[[int, int], None]
_Result = TypeVar("_Result")


class ReplicasFailedError(DeviceError):
    """Mirrored training does not work with these devices."""


class StepResult(NamedTuple):
    loss: tf.Tensor
    parts: Any
    """The parts of the loss, named by the task; the loss is their sum."""
    gradient_norm: tf.Tensor
    learning_rate: tf.Tensor


def compile_training_step(
    objective: Objective,
    optimizer: Optimizer,
    signature: Any,
    training: TrainingConfig,
    *,
    xla: bool,
) -> Any:
    """Return a function (batch, update) -> StepResult that is traced once for all shapes.

    The batch is this machine's share of the global batch. Each of its replicas takes an equal
    share, in micro-batches. Random numbers and the denominators of the losses are computed for
    the global batch, so neither replicas nor micro-batches change the result. Randomness depends
    only on the seed and the step, so a resumed run repeats it. Without `update` everything is
    computed and nothing changes.
    """
    strategy = tf.distribute.get_strategy()
    replicas = strategy.num_replicas_in_sync
    place = place_of(strategy)
    replicas_here = replicas // place.workers
    # Nothing is differentiated with respect to frozen weights.
    variables = optimizer.trained
    accumulation_steps = training.gradient_accumulation_steps
    loss_scale = optimizer.loss_scale

    def gradient_of(batch: Any, draws: Any, counts: Any, scale: tf.Tensor) -> tuple[Any, tf.Tensor]:
        with tf.GradientTape() as tape:
            parts = objective.losses(batch, draws, counts)
            loss = tf.add_n(list(parts)) * scale
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        return parts, optimizer.flatten(gradients)

    # A separate function, traced once for all micro-batches.
    compute = tf.function(gradient_of, jit_compile=xla, autograph=False)

    def replica_step(batch: Any, draws: Any, counts: Any, update: tf.Tensor) -> StepResult:
        context = tf.distribute.get_replica_context()
        if place.workers > 1:
            # Counted per machine; each of its replicas contributes the same numbers.
            totals = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.stack(counts))
            counts = type(counts)(*tf.unstack(totals / replicas_here, len(counts)))
        replica = context.replica_id_in_sync_group
        replica_here = replica - place.worker * replicas_here
        scale = tf.convert_to_tensor(loss_scale.value if loss_scale else 1.0)
        sums: list[Any] = []
        for index in range(accumulation_steps):
            # The batch is this machine's share; draws are for the global batch.
            here = replica_here * accumulation_steps + index, replicas_here * accumulation_steps
            of_all = replica * accumulation_steps + index, replicas * accumulation_steps
            micro_batch = type(batch)(*(_share_of(tensor, *here) for tensor in batch))
            micro_draws = type(draws)(*(_share_of(tensor, *of_all) for tensor in draws))
            parts, gradient = compute(micro_batch, micro_draws, counts, scale)
            terms = [*parts, gradient]
            sums = [sum(pair) for pair in zip(sums, terms, strict=True)] if sums else terms
        loss_parts, gradient = _sum_over_replicas(type(parts)(*sums[:-1]), sums[-1])
        loss = tf.add_n(list(loss_parts))
        # Profiles show this name.
        with tf.name_scope("optimizer"):
            norm, rate = optimizer.apply(gradient, loss, update)
        return StepResult(loss, loss_parts, norm, rate)

    def training_step(batch: Any, update: tf.Tensor) -> StepResult:
        size = _batch_size(batch) * place.workers
        step_seed = tf.stack([training.seed, tf.cast(optimizer.step, tf.int32)])
        draws = objective.draw(size, step_seed)
        result = strategy.run(replica_step, args=(batch, draws, objective.count(batch), update))
        # Every replica has the same result.
        return tf.nest.map_structure(
            lambda value: strategy.experimental_local_results(value)[0], result
        )

    return tf.function(
        training_step,
        input_signature=[signature, tf.TensorSpec([], tf.bool, name="update")],
        autograph=False,
    )


def _sum_over_replicas(parts: Any, gradient: tf.Tensor) -> tuple[Any, tf.Tensor]:
    """Use one all-reduce for everything, so that the step succeeds or fails as a whole."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return parts, gradient
    together = tf.concat([tf.stack(parts), gradient], 0)
    together = context.all_reduce(tf.distribute.ReduceOp.SUM, together)
    count = len(parts)
    return type(parts)(*tf.unstack(together[:count], count)), together[count:]


def _batch_size(batch: Any) -> Any:
    """Return a number if the signature has it, else a tensor."""
    size = batch[0].shape[0]
    return tf.shape(batch[0])[0] if size is None else size


def _share_of(tensor: tf.Tensor, share: Any, shares: int) -> tf.Tensor:
    """Return one of `shares` equal parts of the rows, of static size if the tensor's is."""
    rows = tensor.shape[0]
    count = tf.shape(tensor)[0] // shares if rows is None else rows // shares
    part = tensor[share * count : (share + 1) * count]
    static_count = None if rows is None else count
    return tf.ensure_shape(part, [static_count, *tensor.shape[1:]])


class Stepper:
    """Create and use it in the strategy's scope. Elsewhere the step is traced again."""

    def __init__(
        self,
        task: Task,
        optimizer: Optimizer,
        plan: ShapePlan,
        config: XTTSConfig,
        account: TimeAccount,
    ) -> None:
        strategy = tf.distribute.get_strategy()
        place = place_of(strategy)
        self._task = task
        self._optimizer = optimizer
        self._plan = plan.part(place.workers)
        self._config = config
        self._account = account
        self._xla = uses_xla(strategy, config.training.xla)
        self.expected_seconds: float | None = None
        """Average step time measured during warm-up, or None with dynamic shapes."""
        self.compiled_step = compile_training_step(
            task.objective, optimizer, task.signature(self._plan), config.training, xla=self._xla
        )
        if self._xla:
            # XLA's programs are cached under these names.
            start_names_at_round_number()
        self.compiled_step.get_concrete_function()
        devices = strategy.num_replicas_in_sync // place.workers
        self.monitor = RetracingMonitor(
            self.compiled_step, self._plan, xla=self._xla, devices=devices
        )

    def warm_up(self, on_progress: OnProgress) -> None:
        """Run the largest shape, and with XLA every shape, on blank batches without an update.

        They run as the last step of the run, which computes the most. A batch that does not fit
        into memory fails here, not hours into the run.
        """
        plan = self._plan
        if plan.dynamic:
            _log.warning(
                "batching: dynamic gives every batch its own shape%s; it is meant for comparison. "
                "batching: bucketed trains on the same clips with a few shapes",
                ", and XLA compiles each new one" if self._xla else "",
            )
        largest_first = sorted(
            plan.shapes, key=lambda it: it.batch * it.frames * it.tokens, reverse=True
        )
        shapes = largest_first if self._xla and not plan.dynamic else largest_first[:1]
        for done, shape in enumerate(shapes):
            on_progress(done, len(shapes))
            batch = self._task.blank_batch(shape, plan.shares)
            with self._optimizer.at_last_step():
                self._compute(shape, batch, update=False)
            self.monitor.met.add(shape)
        on_progress(len(shapes), len(shapes))
        self.monitor.finish_warm_up()
        if plan.dynamic:
            return
        # Time the shape that is nearest to the mean of all batches.
        frames = np.array([shape.batch * shape.frames for shape in plan.shapes])
        batches = [len(plan.clips_of(i)) / shape.batch for i, shape in enumerate(plan.shapes)]
        mean = np.average(frames, weights=batches)
        usual = plan.shapes[int(np.argmin(np.abs(frames - mean)))]
        batch = self._task.blank_batch(usual, plan.shares)
        # The first run of a shape also plans and allocates.
        self._compute(usual, batch, update=False)
        started = time.perf_counter()
        self._compute(usual, batch, update=False)
        self.expected_seconds = time.perf_counter() - started

    def run(self, step: int, batch: Any) -> StepResult:
        """Train on a batch and wait for the device."""
        shape = self._task.shape_of(batch)
        self.monitor.require_declared(shape)
        with self._account.spending("compile" if self.monitor.compiles(shape) else "compute"):
            result = self._compute(shape, batch, update=True)
        self.monitor.check(step, shape)
        return result

    def _compute(self, shape: Shape, batch: Any, *, update: bool) -> StepResult:
        with reporting_out_of_memory(self._config, shape):
            result: StepResult = self.compiled_step(batch, tf.constant(update))
            result.loss.numpy()  # waits for the device
        return result


class RetracingMonitor:
    """Counts traces and compilations of a step, and warns about new ones after warm-up.

    Traces are TensorFlow's own count. XLA compiles once per shape and device, so its compilations
    follow from the distinct shapes.
    """

    def __init__(self, compiled_step: Any, plan: ShapePlan, *, xla: bool, devices: int = 1) -> None:
        self._compiled_step = compiled_step
        self._declared = None if plan.dynamic else set(plan.shapes)
        self._xla = xla
        self._devices = devices
        self.met: set[Shape] = set()
        self.trained: set[Shape] = set()
        self._traces_before = self._compilations_before = 0
        self.compilations_after_warmup = 0

    @property
    def traces(self) -> int:
        return int(self._compiled_step.experimental_get_tracing_count())

    @property
    def compilations(self) -> int:
        return self._devices * len(self.met) if self._xla else 0

    def counts(self) -> dict[str, int]:
        """Return the counts by their keys in metrics.jsonl and report.json."""
        return {
            "traces": self.traces,
            "compilations": self.compilations,
            "compilations_after_warmup": self.compilations_after_warmup,
        }

    def compiles(self, shape: Shape) -> bool:
        """Return whether a step of this shape has to be compiled first."""
        return self._xla and shape not in self.met

    def require_declared(self, shape: Shape) -> None:
        """Call this before each step; an undeclared shape never reaches the step."""
        if self._declared is not None and shape not in self._declared:
            raise DataError(
                f"a batch has shape {list(shape)} (clips, tokens, frames, slots), which is not one "
                f"of the declared shapes: {sorted(map(list, self._declared))}"
            )

    def finish_warm_up(self) -> None:
        self._traces_before, self._compilations_before = self.traces, self.compilations

    def check(self, step: int, shape: Shape) -> None:
        """Call this after each step with the shape of its batch."""
        self.trained.add(shape)
        self.met.add(shape)
        traces, compilations = self.traces, self.compilations
        # With XLA a new trace is also compiled, which counts as one event.
        new = max(traces - self._traces_before, compilations - self._compilations_before)
        if new <= 0:
            return
        self.compilations_after_warmup += new
        if traces > self._traces_before:
            cause = "the step was retraced"
        else:
            cause = "undeclared shape; batching: bucketed declares all shapes"
        _log.warning(
            "step %d recompiled for shape %s: %s; %d %s and %d %s in total",
            step,
            list(shape),
            cause,
            traces,
            plural(traces, "trace"),
            compilations,
            plural(compilations, "compilation"),
        )
        self._traces_before, self._compilations_before = traces, compilations


def try_replicas(
    training_step: Any,
    optimizer: Optimizer,
    batches: Iterable[Any],
    limit_seconds: float = _MAX_TRIAL_SECONDS,
) -> None:
    """Train on the batches, compare the weights of all replicas and undo the steps."""
    before = optimizer.state()

    def train() -> tuple[list[float], float]:
        losses = [float(training_step(batch, tf.constant(True)).loss) for batch in batches]
        return losses, _largest_difference(optimizer)

    try:
        losses, difference = _within(limit_seconds, train)
    except LOST_MACHINE_ERRORS:
        raise
    except tf.errors.OpError as error:
        raise ReplicasFailedError(
            f"a trial step failed: {str(error).strip().splitlines()[0]}"
        ) from error
    if not all(map(math.isfinite, losses)):
        raise ReplicasFailedError(f"the losses of the trial steps are not finite: {losses}")
    if not difference <= _TOLERANCE:
        raise ReplicasFailedError(
            f"after {len(losses)} trial steps the weights of the replicas differ by up to "
            f"{difference:.3g}"
        )
    optimizer.restore(before, Path("before the trial"))


def _within(limit_seconds: float, work: Callable[[], _Result]) -> _Result:
    """Return the result of the work, which a stuck link between devices may keep from ending.

    A thread that waits for a device cannot be stopped. It is left behind.
    """
    strategy = tf.distribute.get_strategy()
    results: queue.Queue[_Result | BaseException] = queue.Queue()

    def run() -> None:
        try:
            # Scopes belong to threads.
            with model_scope(strategy):
                results.put(work())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            results.put(error)

    threading.Thread(target=run, name="trial of replicas", daemon=True).start()
    try:
        result = results.get(timeout=limit_seconds)
    except queue.Empty:
        raise ReplicasFailedError(
            f"trial steps on all replicas did not end within {limit_seconds:.0f} s; is a link "
            "between the devices stuck?"
        ) from None
    if isinstance(result, BaseException):
        raise result
    return result


def _largest_difference(optimizer: Optimizer) -> float:
    """Return the difference between any two replicas, relative to the largest weight.

    Copies on this machine are compared directly, without the all-reduce under test; other
    machines are compared by their sums.
    """
    strategy = tf.distribute.get_strategy()
    differences = [0.0]
    largest = 1e-9
    variables = [variable.value for variable in optimizer.trained]
    for variable in variables:
        copies = [np.asarray(copy) for copy in strategy.experimental_local_results(variable)]
        largest = max(largest, float(np.max(np.abs(copies[0]))))
        differences += [float(np.max(np.abs(copy - copies[0]))) for copy in copies[1:]]

    def own_sums() -> tf.Tensor:
        weights = optimizer.weights()
        return tf.stack([tf.reduce_sum(weights), tf.reduce_sum(tf.square(weights))])

    mean = sum_over_replicas(strategy, own_sums) / strategy.num_replicas_in_sync
    size = sum(int(np.prod(variable.shape)) for variable in variables)
    differences.append(float(tf.reduce_max(tf.abs(own_sums() - mean))) / size)
    return max(differences) / largest


def out_of_memory(config: XTTSConfig, shape: Shape | None = None) -> str:
    """Return the message for a device that ran out of memory, in a step of `shape` or elsewhere."""
    accumulation = config.training.gradient_accumulation_steps
    batch = (
        f"the device cannot hold a batch of {shape.batch // accumulation} clips of "
        f"{shape.tokens} tokens and {shape.frames} mel frames"
        if shape
        else "the device cannot hold the model and a batch"
    )
    return (
        f"out of memory: {batch}; halve data.batch_size (now {config.data.batch_size}) and double "
        f"training.gradient_accumulation_steps (now {accumulation}) for the same training, or "
        "leave out long clips with data.max_mel_frames"
    )


@contextlib.contextmanager
def reporting_out_of_memory(config: XTTSConfig, shape: Shape | None = None) -> Iterator[None]:
    """Turn TensorFlow's out-of-memory error into one line that says what to change."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise DeviceError(out_of_memory(config, shape)) from error
