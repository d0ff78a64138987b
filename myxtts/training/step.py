"""The compiled training step: micro-batches, gradients, guard, clipping, update and average."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from myxtts.models.xtts import XTTS, Batch, Counts, Draws, LossParts
from myxtts.training.losses import total_loss
from myxtts.training.optimizer import FlatAdamW


class StepResult(NamedTuple):
    loss: tf.Tensor
    parts: LossParts
    gradient_norm: tf.Tensor
    learning_rate: tf.Tensor


def compile_training_step(
    model: XTTS,
    optimizer: FlatAdamW,
    signature: Batch,
    *,
    accumulation_steps: int,
    seed: int,
    xla: bool,
) -> Any:
    """A function (Batch, update) -> StepResult that is traced once for every shape.

    Each replica of the current strategy takes an equal share of the batch, in micro-batches.
    Random numbers are drawn, and what the losses are averaged over is counted, for the whole
    batch: neither replicas nor micro-batches change the result. Randomness comes from the seed
    and the step alone, so a resumed run repeats it. Without `update` everything is computed and
    nothing changes.
    """
    strategy = tf.distribute.get_strategy()
    replicas = strategy.num_replicas_in_sync
    shares = replicas * accumulation_steps
    variables = model.trainable_variables

    def gradient_of(batch: Batch, draws: Draws, counts: Counts) -> tuple[LossParts, tf.Tensor]:
        with tf.GradientTape() as tape:
            parts, _ = model(batch, draws, counts)
            loss = total_loss(parts)
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        return parts, optimizer.flatten(gradients)

    compute = tf.function(gradient_of, jit_compile=True, autograph=False) if xla else gradient_of

    def replica_step(batch: Batch, draws: Draws, counts: Counts, update: tf.Tensor) -> StepResult:
        context = tf.distribute.get_replica_context()
        first_share = context.replica_id_in_sync_group * accumulation_steps
        sums: list[Any] = []
        for index in range(accumulation_steps):
            share = first_share + index
            micro_batch = Batch(*(_share_of(tensor, share, shares) for tensor in batch))
            micro_draws = Draws(*(_share_of(tensor, share, shares) for tensor in draws))
            parts, gradient = compute(micro_batch, micro_draws, counts)
            terms = [*parts, gradient]
            sums = [sum(pair) for pair in zip(sums, terms, strict=True)] if sums else terms
        if replicas > 1:
            sums = context.all_reduce(tf.distribute.ReduceOp.SUM, sums)
        loss_parts = LossParts(*sums[:-1])
        norm, rate = optimizer.apply(sums[-1], update)
        return StepResult(total_loss(loss_parts), loss_parts, norm, rate)

    def training_step(batch: Batch, update: tf.Tensor) -> StepResult:
        draws = model.draw(_batch_size(batch), tf.stack([seed, tf.cast(optimizer.step, tf.int32)]))
        result = strategy.run(replica_step, args=(batch, draws, model.count(batch), update))
        # Every replica has the same result.
        return tf.nest.map_structure(
            lambda value: strategy.experimental_local_results(value)[0], result
        )

    return tf.function(
        training_step,
        input_signature=[signature, tf.TensorSpec([], tf.bool, name="update")],
        autograph=False,
    )


def _batch_size(batch: Batch) -> Any:
    """As a number where the signature says it, else as a tensor."""
    size = batch.token_ids.shape[0]
    return tf.shape(batch.token_ids)[0] if size is None else size


def _share_of(tensor: tf.Tensor, share: Any, shares: int) -> tf.Tensor:
    """One of equal parts of the rows, of static size where that of the whole is."""
    rows = tensor.shape[0]
    count = tf.shape(tensor)[0] // shares if rows is None else rows // shares
    part = tensor[share * count : (share + 1) * count]
    static_count = None if rows is None else count
    return tf.ensure_shape(part, [static_count, *tensor.shape[1:]])


def compile_evaluation_step(model: XTTS, signature: Batch, seed: int) -> Any:
    """A function Batch -> (LossParts, alignment path), with the same random numbers each time."""

    def evaluation_step(batch: Batch) -> tuple[LossParts, tf.Tensor]:
        draws = model.draw(_batch_size(batch), tf.constant([seed, -1]))
        return model(batch, draws, model.count(batch))

    return tf.function(evaluation_step, input_signature=[signature], autograph=False)
