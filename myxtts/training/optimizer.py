"""AdamW over all weights as one flat vector.

Clipping, the check for non-finite values, the update and the EMA are each a few ops on one long
vector instead of a few per variable. With some 190 variables that cuts tracing from seconds to a
fraction of one, and the optimizer's state is three arrays.

Frozen weights are not in the vector, so no update can touch them. They are their own EMA. Weights
that rest in the later part of a run are in it, take their EMA values there and keep them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from myxtts.config.config import TrainingConfig
from myxtts.devices.strategy import sum_over_replicas
from myxtts.errors import CheckpointError
from myxtts.runs.checkpoint import Shapes, Tensors
from myxtts.training.loss_scale import LossScale, without_scale
from myxtts.training.schedules import ema_decay_at, learning_rate
from myxtts.training.weight_names import frozen_paths

# Decay of both moments: the second one follows short runs faster than the usual 0.999.
BETA_1, BETA_2 = 0.9, 0.98
_EPSILON = 1e-8
WEIGHT_DECAY = 0.01
# Names in the state; squares are never negative.
_RATE_FACTOR = "rate_factor"


class Rest(NamedTuple):
    """Weights that are learnt in the first part of a run only."""

    first_step: int
    paths: frozenset[str]


class FlatAdamW(tf.Module):
    """Moments, EMA weights and step count for a fixed list of Keras variables."""

    def __init__(
        self,
        variables: Sequence[keras.Variable],
        training: TrainingConfig,
        total_steps: int,
        rest: Rest | None = None,
    ) -> None:
        super().__init__(name="flat_adamw")
        frozen = frozen_paths(training.freeze, [variable.path for variable in variables])
        self._all = list(variables)
        self.trained = [variable for variable in variables if variable.path not in frozen]
        self.frozen = [variable for variable in variables if variable.path in frozen]
        self._training = training
        self._total_steps = total_steps
        self._sizes = _sizes(self.trained)
        # Only matrices decay: shrinking a bias or a scale regularises nothing.
        self._decay = self._of_each(lambda it: WEIGHT_DECAY * (len(it.shape) > 1))
        self._rest = rest
        if rest is not None:
            self._rests = self._of_each(lambda it: float(it.path in rest.paths))
        zeros = tf.zeros([sum(self._sizes)])
        self.first_moment = tf.Variable(zeros, trainable=False, name="first_moment")
        self.second_moment = tf.Variable(zeros, trainable=False, name="second_moment")
        self.ema = tf.Variable(self.weights(), trainable=False, name="ema")
        self.step = tf.Variable(0, trainable=False, dtype=tf.int64, name="step")
        self.loss_scale = LossScale() if training.precision == "float16" else None
        # Multiplies the scheduled learning rate; lowered when a run diverges.
        self.rate_factor = tf.Variable(1.0, trainable=False, name="rate_factor")

    def _of_each(self, value: Callable[[keras.Variable], float]) -> tf.Tensor:
        """One number for each weight, the same for all of a variable."""
        return tf.constant(np.repeat([*map(value, self.trained)], self._sizes), tf.float32)

    @property
    def variables_here(self) -> list[tf.Variable]:
        """The trained weights as TensorFlow variables, each with a copy per replica."""
        return [variable.value for variable in self.trained]

    def weights(self) -> tf.Tensor:
        """The trained weights as one vector."""
        return self._concatenated(self.trained)

    def flatten(self, tensors: Sequence[Any]) -> tf.Tensor:
        return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)

    def _concatenated(self, variables: Sequence[keras.Variable]) -> tf.Tensor:
        return self.flatten([tf.convert_to_tensor(variable) for variable in variables])

    def assign_weights(self, flat: tf.Tensor) -> None:
        for variable, part in _parts(flat, self.trained):
            variable.assign(part)

    @contextlib.contextmanager
    def ema_weights(self) -> Iterator[None]:
        """The model uses its EMA weights inside this context."""
        own = self.weights()
        self.assign_weights(self.ema)
        try:
            yield
        finally:
            self.assign_weights(own)

    def reset_ema(self) -> None:
        """Restarts the EMA from the current weights, after they were set other than by training."""
        self.ema.assign(self.weights())

    def take_weights_of_first_replica(self) -> None:
        """Broadcasts the weights of the first replica to all machines."""

        def first_or_nothing() -> tf.Tensor:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            return tf.where(tf.equal(replica, 0), self._concatenated(self._all), 0.0)

        strategy = tf.distribute.get_strategy()
        for variable, part in _parts(sum_over_replicas(strategy, first_or_nothing), self._all):
            variable.assign(part)

    @contextlib.contextmanager
    def at_last_step(self) -> Iterator[None]:
        """What depends on the step is inside as it is at the end of the run."""
        step = self.step.numpy()
        self.step.assign(self._total_steps - 1)
        try:
            yield
        finally:
            self.step.assign(step)

    def weights_by_name(self) -> Tensors:
        """All weights, frozen or not."""
        return {variable.path: variable.value.numpy() for variable in self._all}

    def state(self) -> Tensors:
        """Everything needed to resume training, by name; copies that no later step changes."""
        state: Tensors = {
            "step": np.array(self.step.numpy()),
            _RATE_FACTOR: np.array(self.rate_factor.numpy()),
        }
        # One by one: concatenating first would take longer than copying, and `numpy` copies.
        weights = self.weights_by_name()
        state |= {f"weights/{name}": value for name, value in weights.items()}
        for kind, flat in self._flat_parts().items():
            of_trained = self._by_name(flat)
            for name, value in weights.items():
                of_frozen = value if kind == "average" else np.zeros_like(value)
                state[f"{kind}/{name}"] = of_trained.get(name, of_frozen)
        return state | (self.loss_scale.state() if self.loss_scale else {})

    def restore(self, state: Tensors, source: Path) -> None:
        """Restores what `state` returned; anything missing, extra or of another shape is an error.

        Only the loss scale may be missing or extra, since a run may resume in another precision.
        """
        self.require_shapes({name: value.shape for name, value in state.items()}, source)
        self.restore_state(state)

    def require_shapes(self, shapes: Shapes, source: Path) -> None:
        """The same for the shapes of a state alone."""
        own = {name: value.shape for name, value in self.state().items()}
        _require_same(without_scale(shapes), without_scale(own), source)

    def restore_state(self, state: Tensors) -> None:
        """Restores the state of an optimizer of the same variables, whatever it had frozen.

        Weights that are now frozen take their EMA values, which synthesis uses.
        """
        flat = {
            kind: self.flatten([state[f"{kind}/{variable.path}"] for variable in self.trained])
            for kind in ("weights", *self._flat_parts())
        }
        for variable in self.frozen:
            variable.assign(state[f"average/{variable.path}"])
        self.assign_weights(flat["weights"])
        self.ema.assign(flat["average"])
        self.first_moment.assign(flat["first_moment"])
        self.second_moment.assign(flat["second_moment"])
        self.step.assign(state["step"])
        self.rate_factor.assign(state[_RATE_FACTOR])
        if self.loss_scale:
            self.loss_scale.restore(state)

    def start_from(self, weights: Tensors) -> None:
        """Loads weights only, by path; moments and step keep their values."""
        for variable in self._all:
            variable.assign(weights[variable.path])
        self.reset_ema()

    def _flat_parts(self) -> dict[str, tf.Variable]:
        return {
            "average": self.ema,
            "first_moment": self.first_moment,
            "second_moment": self.second_moment,
        }

    def _by_name(self, flat: tf.Variable) -> Tensors:
        parts = np.split(flat.numpy(), np.cumsum(self._sizes)[:-1])
        return {
            variable.path: part.reshape(variable.shape)
            for variable, part in zip(self.trained, parts, strict=True)
        }

    def apply(
        self, gradient: tf.Tensor, loss: tf.Tensor, update: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """One update from the flat gradient; returns its norm before clipping and the rate.

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

        def if_usable(factor: Any) -> tf.Tensor:
            return tf.where(usable, factor, 0.0)

        scale = tf.minimum(1.0, training.clip_norm / tf.maximum(norm, _EPSILON))
        gradient = tf.math.multiply_no_nan(gradient, if_usable(scale))
        next_step = self.step + 1
        step = tf.cast(next_step, tf.float32)
        rate = learning_rate(step, self._total_steps, training) * self.rate_factor
        first = self.first_moment + if_usable(1.0 - BETA_1) * (gradient - self.first_moment)
        second = self.second_moment + if_usable(1.0 - BETA_2) * (
            tf.square(gradient) - self.second_moment
        )
        # first / bias_1 / (sqrt(second / bias_2) + epsilon), without an extra pass for bias_1.
        bias_1 = 1.0 - tf.pow(BETA_1, step)
        bias_2 = 1.0 - tf.pow(BETA_2, step)
        deviation = tf.sqrt(second * (tf.square(bias_1) / bias_2)) + bias_1 * _EPSILON
        old = self.weights()
        change: Any = if_usable(rate)
        if self._rest is not None:
            begins_to_rest = tf.where(update & (self.step == self._rest.first_step), 1.0, 0.0)
            old += begins_to_rest * self._rests * (self.ema - old)
            change *= 1.0 - tf.where(self.step >= self._rest.first_step, 1.0, 0.0) * self._rests
        new = old - change * (first / deviation + self._decay * old)
        new_share = tf.where(update, 1.0 - ema_decay_at(step, training), 0.0)
        _assign_on_every_replica(
            [
                (self.step, tf.where(update, next_step, self.step)),
                (self.first_moment, first),
                (self.second_moment, second),
                (self.ema, self.ema + new_share * (new - self.ema)),
                *((variable.value, part) for variable, part in _parts(new, self.trained)),
                *(self.loss_scale.following(is_finite, update) if self.loss_scale else ()),
            ]
        )
        return norm, rate


def _sizes(variables: Sequence[keras.Variable]) -> list[int]:
    return [int(np.prod(variable.shape)) for variable in variables]


def _parts(
    flat: tf.Tensor, variables: Sequence[keras.Variable]
) -> list[tuple[keras.Variable, tf.Tensor]]:
    """Each variable with its slice of the vector, in the variable's shape."""
    parts = tf.split(flat, _sizes(variables))
    return [
        (variable, tf.reshape(part, variable.shape))
        for variable, part in zip(variables, parts, strict=True)
    ]


def _assign_on_every_replica(assignments: Sequence[tuple[tf.Variable, tf.Tensor]]) -> None:
    """Each replica assigns its own copy; the values are equal, from the same gradient."""
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


def _require_same(found: Shapes, expected: Shapes, source: Path) -> None:
    for name in sorted(expected.keys() | found.keys()):
        here = list(expected[name]) if name in expected else "nothing"
        there = list(found[name]) if name in found else "missing"
        if here != there:
            raise CheckpointError(
                f"{source}: does not match this configuration and corpus: "
                f"{name} is {there}, expected {here}"
            )
