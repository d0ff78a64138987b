"""AdamW over all weights as one flat vector, with loss scaling, an EMA and frozen weights.

Clipping, the check for non-finite values, the update and the EMA are a few ops each on one vector
instead of a few per variable. With some 190 variables that cuts tracing from seconds to a
fraction of one, and the optimizer's state is three arrays.

Frozen weights are not in the vector, so no update can touch them. They are their own EMA. Weights
that freeze later in a run are in it. At that step they take their EMA values and keep them.

Another optimizer is a subclass of `Optimizer` with its own `slots` and `updated`.
"""

from __future__ import annotations

import contextlib
import fnmatch
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from myxtts.config.config import TrainingConfig
from myxtts.config.schema import did_you_mean
from myxtts.devices.strategy import sum_over_replicas
from myxtts.errors import CheckpointError, ConfigError
from myxtts.runs.checkpoint import Tensors

# Decay of both moments: the second one follows short runs faster than the usual 0.999.
BETA_1, BETA_2 = 0.9, 0.98
_EPSILON = 1e-8
WEIGHT_DECAY = 0.01
# Learning rate at the last step, as a fraction of the peak.
FINAL_FRACTION = 0.02
_FIRST_SCALE = 2.0**15
# After this many finite steps in a row, a larger scale is tried.
GOOD_STEPS_TO_GROW = 1_000
# Names in the state.
_RATE_FACTOR = "rate_factor"
_LOSS_SCALE = "loss_scale/"
_SCALE_VALUE = f"{_LOSS_SCALE}value"
_MODEL = "xtts/"


def learning_rate(step: tf.Tensor, total_steps: int, training: TrainingConfig) -> tf.Tensor:
    """Return linear warmup times cosine decay; `step` counts from 1."""
    warmup = tf.minimum(1.0, step / max(1, training.warmup_steps))
    progress = tf.minimum(1.0, step / max(1, total_steps))
    cosine = FINAL_FRACTION + (1.0 - FINAL_FRACTION) * 0.5 * (1.0 + tf.cos(math.pi * progress))
    return training.learning_rate * warmup * cosine


def ema_decay_at(step: tf.Tensor, training: TrainingConfig) -> tf.Tensor:
    """Ramp up from a low decay, since the weights change fast at the start."""
    return tf.minimum(training.ema_decay, (1.0 + step) / (10.0 + step))


class LossScale(tf.Module):
    """Dynamic loss scaling, which keeps small float16 gradients from underflowing to zero.

    The loss is multiplied by the scale before differentiation, and the gradient divided by it
    afterwards. The scale halves when the gradient overflows and doubles after many good steps.
    """

    def __init__(self) -> None:
        super().__init__(name="loss_scale")
        self.value = tf.Variable(_FIRST_SCALE, trainable=False, name="value")
        self.good_steps = tf.Variable(0, trainable=False, dtype=tf.int64, name="good_steps")

    def following(
        self, gradient_is_finite: tf.Tensor, update: tf.Tensor
    ) -> list[tuple[tf.Variable, tf.Tensor]]:
        """Return the assignments after a step, which must be the same on all replicas."""
        good_steps = tf.where(gradient_is_finite, self.good_steps + 1, 0)
        grows = good_steps >= GOOD_STEPS_TO_GROW
        larger = tf.where(grows, 2.0 * self.value, self.value)
        value = tf.where(gradient_is_finite, larger, tf.maximum(self.value / 2.0, 1.0))
        good_steps = tf.where(grows, tf.zeros_like(good_steps), good_steps)
        return [
            (self.value, tf.where(update, value, self.value)),
            (self.good_steps, tf.where(update, good_steps, self.good_steps)),
        ]

    def state(self) -> Tensors:
        return {
            _SCALE_VALUE: np.array(self.value.numpy()),
            f"{_LOSS_SCALE}good_steps": np.array(self.good_steps.numpy()),
        }

    def restore(self, state: Tensors) -> None:
        """Restore what `state` returned; a checkpoint without a loss scale changes nothing."""
        if _SCALE_VALUE in state:
            self.value.assign(state[_SCALE_VALUE])
            self.good_steps.assign(state[f"{_LOSS_SCALE}good_steps"])


def short_name(path: str) -> str:
    """Return a variable's path without the model's own name."""
    return path.removeprefix(_MODEL)


def frozen_paths(freeze: str | None, paths: Iterable[str]) -> frozenset[str]:
    """Return the paths that match training.freeze. A name without a match is an error.

    `decoder` and `decoder/*` are the whole decoder; `decoder.block_0` is `decoder/block_0`.
    """

    def levels(name: str) -> list[str]:  # a, a/b and a/b/c for a/b/c
        return list(itertools.accumulate(name.split("/"), lambda above, own: f"{above}/{own}"))

    names = {short_name(path): path for path in paths}
    patterns = [short_name(it.strip().replace(".", "/")) for it in (freeze or "").split(",")]
    frozen: set[str] = set()
    for pattern in filter(None, patterns):
        found = [path for name, path in names.items() if fnmatch.filter(levels(name), pattern)]
        if not found:
            parts = dict.fromkeys(name.partition("/")[0] for name in names)
            hint = did_you_mean(pattern, dict.fromkeys(itertools.chain(*map(levels, names))))
            raise ConfigError(
                f"training.freeze: no part of the model is called '{pattern}'{hint or ';'} "
                f"its parts are {', '.join(parts)}"
            )
        frozen.update(found)
    if len(frozen) == len(names):
        raise ConfigError(f"training.freeze: found {freeze!r}, which leaves nothing to train")
    return frozenset(frozen)


class FreezeAfter(NamedTuple):
    """Weights that are frozen from a step on."""

    first_step: int
    paths: frozenset[str]


class Optimizer(tf.Module):
    """EMA weights, step count and state for a fixed list of Keras variables.

    A subclass adds flat vectors of its own (`slots`) and the update rule (`updated`).
    """

    def __init__(
        self,
        variables: Sequence[keras.Variable],
        training: TrainingConfig,
        total_steps: int,
        freeze_after: FreezeAfter | None = None,
    ) -> None:
        super().__init__(name="optimizer")
        frozen = frozen_paths(training.freeze, [variable.path for variable in variables])
        self._all = list(variables)
        self.trained = [variable for variable in variables if variable.path not in frozen]
        self.frozen = [variable for variable in variables if variable.path in frozen]
        self._training = training
        self._total_steps = total_steps
        self._sizes = _sizes(self.trained)
        self._freeze_after = freeze_after
        self.ema = tf.Variable(self.weights(), trainable=False, name="ema")
        self.step = tf.Variable(0, trainable=False, dtype=tf.int64, name="step")
        self.loss_scale = LossScale() if training.precision == "float16" else None
        if freeze_after is not None:
            self._freezes = self.of_each(lambda it: float(it.path in freeze_after.paths))
        # Multiplies the scheduled learning rate; lowered when a run diverges.
        self.rate_factor = tf.Variable(1.0, trainable=False, name="rate_factor")

    def slots(self) -> dict[str, tf.Variable]:
        """Return the state of the update rule: flat vectors of the trained weights' size."""
        raise NotImplementedError

    def updated(
        self, weights: tf.Tensor, gradient: tf.Tensor, rate: tf.Tensor, step: tf.Tensor, usable: Any
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Return the weights and the slots after step `step`, which counts from 1.

        If the step is not `usable`, the gradient and the rate are zero and nothing may change.
        """
        raise NotImplementedError

    def apply(
        self, gradient: tf.Tensor, loss: tf.Tensor, update: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Update from the flat gradient. Return its norm before clipping and the learning rate.

        With loss scaling it is the gradient of the scaled loss. A non-finite gradient or loss
        changes no weight, only the step count and the loss scale. Both are sums over all
        replicas, so all replicas decide alike. Without `update` nothing changes.
        """
        training = self._training
        if self.loss_scale:
            gradient = gradient / self.loss_scale.value
        # An update is memory-bound: each op on a whole vector is one pass through memory. So
        # scalars are combined first, and zero factors instead of tf.where skip an update.
        norm = tf.sqrt(2.0 * tf.nn.l2_loss(gradient))
        is_finite = tf.math.is_finite(norm) & tf.math.is_finite(loss)
        usable = is_finite & update
        scale = tf.minimum(1.0, training.clip_norm / tf.maximum(norm, _EPSILON))
        gradient = tf.math.multiply_no_nan(gradient, tf.where(usable, scale, 0.0))
        next_step = self.step + 1
        step = tf.cast(next_step, tf.float32)
        rate = learning_rate(step, self._total_steps, training) * self.rate_factor
        old = self.weights()
        change: Any = tf.where(usable, rate, 0.0)
        if self._freeze_after is not None:
            first_step = self._freeze_after.first_step
            freezes_now = tf.where(update & (self.step == first_step), 1.0, 0.0)
            old += freezes_now * self._freezes * (self.ema - old)
            change *= 1.0 - tf.where(self.step >= first_step, 1.0, 0.0) * self._freezes
        new, slots = self.updated(old, gradient, change, step, usable)
        new_share = tf.where(update, 1.0 - ema_decay_at(step, training), 0.0)
        assign_on_every_replica(
            [
                (self.step, tf.where(update, next_step, self.step)),
                *((slot, slots[name]) for name, slot in self.slots().items()),
                (self.ema, self.ema + new_share * (new - self.ema)),
                *((variable.value, part) for variable, part in _parts(new, self.trained)),
                *(self.loss_scale.following(is_finite, update) if self.loss_scale else ()),
            ]
        )
        return norm, rate

    def of_each(self, value: Callable[[keras.Variable], float]) -> tf.Tensor:
        """Return one number for each trained weight, the same for all of a variable."""
        return tf.constant(np.repeat([*map(value, self.trained)], self._sizes), tf.float32)

    def weights(self) -> tf.Tensor:
        """Return the trained weights as one vector."""
        return self.flatten([tf.convert_to_tensor(variable) for variable in self.trained])

    def flatten(self, tensors: Sequence[Any]) -> tf.Tensor:
        return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)

    def assign_weights(self, flat: tf.Tensor) -> None:
        for variable, part in _parts(flat, self.trained):
            variable.assign(part)

    @contextlib.contextmanager
    def ema_weights(self) -> Iterator[None]:
        """Use the EMA weights in the model inside this context."""
        own = self.weights()
        self.assign_weights(self.ema)
        try:
            yield
        finally:
            self.assign_weights(own)

    def reset_ema(self) -> None:
        """Restart the EMA from the current weights, after they were set other than by training."""
        self.ema.assign(self.weights())

    def broadcast_first_replica(self) -> None:
        """Give all replicas of all machines the weights of the first one."""

        def first_or_nothing() -> tf.Tensor:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            weights = self.flatten([tf.convert_to_tensor(variable) for variable in self._all])
            return tf.where(tf.equal(replica, 0), weights, 0.0)

        strategy = tf.distribute.get_strategy()
        for variable, part in _parts(sum_over_replicas(strategy, first_or_nothing), self._all):
            variable.assign(part)

    @contextlib.contextmanager
    def at_last_step(self) -> Iterator[None]:
        """Set the step to the last one of the run inside this context."""
        step = self.step.numpy()
        self.step.assign(self._total_steps - 1)
        try:
            yield
        finally:
            self.step.assign(step)

    def weights_by_name(self) -> Tensors:
        """Return all weights, frozen or not."""
        return {variable.path: variable.value.numpy() for variable in self._all}

    def state(self) -> Tensors:
        """Return everything needed to resume training, by name, as copies."""
        state: Tensors = {
            "step": np.array(self.step.numpy()),
            _RATE_FACTOR: np.array(self.rate_factor.numpy()),
        }
        # One by one: concatenating first would take longer than copying, and `numpy` copies.
        weights = self.weights_by_name()
        state |= {f"weights/{name}": value for name, value in weights.items()}
        for kind, flat in {"average": self.ema, **self.slots()}.items():
            parts = np.split(flat.numpy(), np.cumsum(self._sizes)[:-1])
            trained = {
                variable.path: part.reshape(variable.shape)
                for variable, part in zip(self.trained, parts, strict=True)
            }
            for name, value in weights.items():
                of_frozen = value if kind == "average" else np.zeros_like(value)
                state[f"{kind}/{name}"] = trained.get(name, of_frozen)
        return state | (self.loss_scale.state() if self.loss_scale else {})

    def restore(self, state: Tensors, source: Path) -> None:
        """Restore what `state` returned, of an optimizer of the same variables.

        Anything missing, extra or of another shape is an error. Only the loss scale may be missing
        or extra, since a run may resume in another precision. Weights that are now frozen take
        their EMA values, which synthesis uses.
        """
        kinds = ("weights", "average", *self.slots())
        expected: dict[str, list[int]] = {"step": [], _RATE_FACTOR: []}
        expected |= {f"{kind}/{it.path}": list(it.shape) for kind in kinds for it in self._all}
        found = {
            name: list(value.shape)
            for name, value in state.items()
            if not name.startswith(_LOSS_SCALE)
        }
        for name in sorted(expected.keys() | found.keys()):
            here, there = expected.get(name, "nothing"), found.get(name, "missing")
            if here != there:
                raise CheckpointError(
                    f"{source}: does not match this configuration and corpus: "
                    f"{name} is {there}, expected {here}"
                )
        flat = {
            kind: self.flatten([state[f"{kind}/{variable.path}"] for variable in self.trained])
            for kind in kinds
        }
        for variable in self.frozen:
            variable.assign(state[f"average/{variable.path}"])
        self.assign_weights(flat["weights"])
        self.ema.assign(flat["average"])
        for kind, slot in self.slots().items():
            slot.assign(flat[kind])
        self.step.assign(state["step"])
        self.rate_factor.assign(state[_RATE_FACTOR])
        if self.loss_scale:
            self.loss_scale.restore(state)

    def start_from(self, weights: Tensors) -> None:
        """Load weights only, by path. Moments and step keep their values."""
        for variable in self._all:
            variable.assign(weights[variable.path])
        self.reset_ema()


class FlatAdamW(Optimizer):
    """AdamW, whose weight decay is for matrices: shrinking a bias regularizes nothing."""

    def __init__(
        self,
        variables: Sequence[keras.Variable],
        training: TrainingConfig,
        total_steps: int,
        freeze_after: FreezeAfter | None = None,
    ) -> None:
        super().__init__(variables, training, total_steps, freeze_after)
        self._decay = self.of_each(lambda it: WEIGHT_DECAY * (len(it.shape) > 1))
        zeros = tf.zeros([sum(self._sizes)])
        self.first_moment = tf.Variable(zeros, trainable=False, name="first_moment")
        self.second_moment = tf.Variable(zeros, trainable=False, name="second_moment")

    def slots(self) -> dict[str, tf.Variable]:
        return {"first_moment": self.first_moment, "second_moment": self.second_moment}

    def updated(
        self, weights: tf.Tensor, gradient: tf.Tensor, rate: tf.Tensor, step: tf.Tensor, usable: Any
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        share_1, share_2 = (tf.where(usable, 1.0 - beta, 0.0) for beta in (BETA_1, BETA_2))
        first = self.first_moment + share_1 * (gradient - self.first_moment)
        second = self.second_moment + share_2 * (tf.square(gradient) - self.second_moment)
        # first / bias_1 / (sqrt(second / bias_2) + epsilon), without an extra pass for bias_1.
        bias_1 = 1.0 - tf.pow(BETA_1, step)
        bias_2 = 1.0 - tf.pow(BETA_2, step)
        deviation = tf.sqrt(second * (tf.square(bias_1) / bias_2)) + bias_1 * _EPSILON
        new = weights - rate * (first / deviation + self._decay * weights)
        return new, {"first_moment": first, "second_moment": second}


def _sizes(variables: Sequence[keras.Variable]) -> list[int]:
    return [int(np.prod(variable.shape)) for variable in variables]


def _parts(
    flat: tf.Tensor, variables: Sequence[keras.Variable]
) -> list[tuple[keras.Variable, tf.Tensor]]:
    """Return each variable with its part of the vector, in the variable's shape."""
    parts = tf.split(flat, _sizes(variables))
    return [
        (variable, tf.reshape(part, variable.shape))
        for variable, part in zip(variables, parts, strict=True)
    ]


def assign_on_every_replica(assignments: Sequence[tuple[tf.Variable, tf.Tensor]]) -> None:
    """Assign on each replica its own copy. The values are equal, from the same gradient."""
    variables = [variable for variable, _ in assignments]
    values = [value for _, value in assignments]
    if not tf.distribute.has_strategy() or isinstance(
        tf.distribute.get_strategy(), tf.distribute.OneDeviceStrategy
    ):
        for variable, value in assignments:
            variable.assign(value)
        return

    def update(strategy: tf.distribute.Strategy, values: Sequence[Any]) -> None:
        for variable, value in zip(variables, values, strict=True):
            strategy.extended.update(variable, lambda copy, new: copy.assign(new), args=(value,))

    tf.distribute.get_replica_context().merge_call(update, args=(values,))
