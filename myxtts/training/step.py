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
    """A function Batch -> StepResult that is traced once for every length of clip.

    Its randomness comes from the seed and the step alone, so a resumed run repeats it.
    """
    variables = model.trainable_variables
    batch_size = signature.token_ids.shape[0]
    micro_size = batch_size // accumulation_steps

    def gradient_of(batch: Batch, draws: Draws, counts: Counts) -> tuple[LossParts, tf.Tensor]:
        with tf.GradientTape() as tape:
            parts, _ = model(batch, draws, counts)
            loss = total_loss(parts)
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        return parts, optimizer.flatten(gradients)

    compute = tf.function(gradient_of, jit_compile=True, autograph=False) if xla else gradient_of

    def training_step(batch: Batch) -> StepResult:
        draws = model.draw(batch_size, tf.stack([seed, tf.cast(optimizer.step, tf.int32)]))
        counts = model.count(batch)
        sums: list[Any] = []
        for first in range(0, batch_size, micro_size):
            rows = slice(first, first + micro_size)
            micro_batch = Batch(*(tensor[rows] for tensor in batch))
            micro_draws = Draws(*(tensor[rows] for tensor in draws))
            parts, gradient = compute(micro_batch, micro_draws, counts)
            terms = [*parts, gradient]
            sums = (
                [total + term for total, term in zip(sums, terms, strict=True)] if sums else terms
            )
        loss_parts = LossParts(*sums[:-1])
        norm, rate = optimizer.apply(sums[-1])
        return StepResult(total_loss(loss_parts), loss_parts, norm, rate)

    return tf.function(training_step, input_signature=[signature], autograph=False)


def compile_evaluation_step(model: XTTS, signature: Batch, seed: int) -> Any:
    """A function Batch -> (LossParts, alignment path), with the same random numbers each time."""
    batch_size = signature.token_ids.shape[0]

    def evaluation_step(batch: Batch) -> tuple[LossParts, tf.Tensor]:
        draws = model.draw(batch_size, tf.constant([seed, -1]))
        return model(batch, draws, model.count(batch))

    return tf.function(evaluation_step, input_signature=[signature], autograph=False)
