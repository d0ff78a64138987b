"""Schedules of the learning rate and of the EMA decay."""

from __future__ import annotations

import math

import tensorflow as tf

from myxtts.config.config import TrainingConfig

# Learning rate at the last step, as a fraction of the peak.
FINAL_FRACTION = 0.02


def learning_rate(step: tf.Tensor, total_steps: int, training: TrainingConfig) -> tf.Tensor:
    """Linear warmup times cosine decay; `step` counts from 1."""
    warmup = tf.minimum(1.0, step / max(1, training.warmup_steps))
    progress = tf.minimum(1.0, step / max(1, total_steps))
    cosine = FINAL_FRACTION + (1.0 - FINAL_FRACTION) * 0.5 * (1.0 + tf.cos(math.pi * progress))
    return training.learning_rate * warmup * cosine


def ema_decay_at(step: tf.Tensor, training: TrainingConfig) -> tf.Tensor:
    """Ramps up from a low decay, since the weights change fast at the start."""
    return tf.minimum(training.ema_decay, (1.0 + step) / (10.0 + step))
