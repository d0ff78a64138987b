"""The compiled training step: micro-batches, gradients, clipping, update and EMA."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from myxtts.config.config import TrainingConfig
from myxtts.devices.strategy import place_of
from myxtts.training.optimizer import FlatAdamW
from myxtts.training.task import Objective


class StepResult(NamedTuple):
    loss: tf.Tensor
    parts: Any
    """The parts of the loss, named by the task; the loss is their sum."""
    gradient_norm: tf.Tensor
    learning_rate: tf.Tensor


def compile_training_step(
    objective: Objective,
    optimizer: FlatAdamW,
    signature: Any,
    training: TrainingConfig,
    *,
    xla: bool,
) -> Any:
    """A function (batch, update) -> StepResult that is traced once for all shapes.

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

    # As a separate function it is traced once for all micro-batches.
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
    """One all-reduce for everything, so that the step succeeds or fails as a whole."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return parts, gradient
    together = tf.concat([tf.stack(parts), gradient], 0)
    together = context.all_reduce(tf.distribute.ReduceOp.SUM, together)
    count = len(parts)
    return type(parts)(*tf.unstack(together[:count], count)), together[count:]


def _batch_size(batch: Any) -> Any:
    """As a number if the signature has it, else as a tensor."""
    size = batch[0].shape[0]
    return tf.shape(batch[0])[0] if size is None else size


def _share_of(tensor: tf.Tensor, share: Any, shares: int) -> tf.Tensor:
    """One of `shares` equal parts of the rows, of static size if the tensor's is."""
    rows = tensor.shape[0]
    count = tf.shape(tensor)[0] // shares if rows is None else rows // shares
    part = tensor[share * count : (share + 1) * count]
    static_count = None if rows is None else count
    return tf.ensure_shape(part, [static_count, *tensor.shape[1:]])
