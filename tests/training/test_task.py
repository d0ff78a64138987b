"""The loop trains any task: here one that has nothing to do with speech."""

import shutil
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.runs.run_dir import RunDir
from myxtts.training.optimizer import FlatAdamW, Optimizer
from myxtts.training.task import BatchWork, Task
from myxtts.training.trainer import XTTSTrainer


class Numbers(NamedTuple):
    inputs: Any  # [batch, 3]
    targets: Any  # [batch, 1]


class Draws(NamedTuple):
    noise: Any  # [batch, 1]


class Counts(NamedTuple):
    rows: Any


class Losses(NamedTuple):
    distance: Any
    size: Any


class LinearTask(Task):
    """Learns the sum of three numbers, from batches as large as the corpus plans them."""

    def __init__(self, corpus):
        self._corpus = corpus
        self.validations = []

    def build(self):
        layers = [keras.Input([3]), keras.layers.Dense(1, name="dense")]
        self.model = keras.Sequential(layers, name="linear")

    @property
    def objective(self):
        return self

    def draw(self, batch_size, seed):
        return Draws(0.01 * tf.random.stateless_normal([batch_size, 1], seed, alg="philox"))

    def count(self, batch):
        return Counts(tf.cast(tf.shape(batch.inputs)[0], tf.float32))

    def losses(self, batch, draws, counts):
        error = self.model(batch.inputs) - batch.targets + draws.noise
        size = tf.reduce_sum(tf.square(self.model.trainable_variables[0].value))
        rows = tf.cast(tf.shape(batch.inputs)[0], tf.float32)
        return Losses(
            tf.reduce_sum(tf.square(error)) / counts.rows, 1e-4 * size * rows / counts.rows
        )

    def signature(self, plan=None):
        return Numbers(tf.TensorSpec([None, 3]), tf.TensorSpec([None, 1]))

    def shape_of(self, batch):
        rows = int(batch.inputs.shape[0])
        return next(it for it in self._corpus.train.plan.shapes if it.batch == rows)

    def blank_batch(self, shape, shares):
        return Numbers(tf.zeros([shape.batch, 3]), tf.zeros([shape.batch, 1]))

    def load(self, planned):
        inputs = np.random.default_rng(planned.clips).normal(size=(planned.shape.batch, 3))
        return Numbers(
            tf.constant(inputs, tf.float32), tf.constant(inputs.sum(1, keepdims=True), tf.float32)
        )

    def work_of(self, batch):
        rows = int(batch.inputs.shape[0])
        return BatchWork(3 * rows, 4 * rows, rows, 2 * rows)

    def compile_validation(self):
        return self

    def run(self, step, writer):
        self.validations.append(step)
        return {"validation_loss": 1.0 / step, "validation_distance_loss": 1.0 / step}

    def source(self, *, data_device, worker, workers):
        return LinearSource(self, self._corpus)

    def fingerprints(self):
        return self._corpus.fingerprints()

    def state(self):
        return {"mel_mean": 0.0, "mel_deviation": 1.0}


class LinearSource:
    device, has_own_device, computes_features = "CPU:0", False, False
    largest_batch_bytes = 1_000

    def __init__(self, task, corpus):
        self._task = task
        self.cache = corpus.train.cache
        self._schedule = corpus.train.schedule
        self.signature = task.signature()

    def load(self, step):
        return Numbers(
            *(tensor.numpy() for tensor in self._task.load(self._schedule.batch_at(step)))
        )


@pytest.fixture
def train(corpus, miniature, tmp_path):
    def run(steps, resume=False, optimizer=FlatAdamW):
        config = miniature(
            max_steps=steps, learning_rate=0.05, log_every=1, best_metric="validation_loss"
        )
        trainer = XTTSTrainer(
            config, corpus, tmp_path / "run", task=LinearTask(corpus), optimizer=optimizer
        )
        if resume:
            trainer.resume()
        return trainer, trainer.fit()

    return run


def test_another_task_is_trained_logged_evaluated_and_saved(train, tmp_path):
    trainer, report = train(60)
    lines = RunDir(tmp_path / "run").metric_lines()
    assert lines[-1]["distance_loss"] < 0.1 * lines[0]["distance_loss"]
    for line in lines:
        assert line["loss"] == pytest.approx(line["distance_loss"] + line["size_loss"], rel=1e-5)
    assert report.compilations_after_warmup == 0
    assert report.valid_frame_ratio == 0.75
    assert report.valid_work_ratio == 0.5
    assert report.best == {"metric": "validation_loss", "step": 60, "value": 1 / 60}
    assert trainer.task.validations == list(range(3, 61, 3))


class KerasAdamW(Optimizer):
    """Keras's own AdamW, on one vector of all weights."""

    def __init__(self, variables, training, total_steps, freeze_after=None):
        super().__init__(variables, training, total_steps, freeze_after)
        self._flat = keras.Variable(self.weights(), name="flat")
        self._keras = keras.optimizers.AdamW()
        self._keras.build([self._flat])

    def slots(self):
        return {variable.name: variable.value for variable in self._keras.variables[2:]}

    def updated(self, weights, gradient, rate, step, usable):
        def update():
            self._keras.iterations.assign(tf.cast(step, tf.int64) - 1)
            self._keras.learning_rate = rate
            self._flat.assign(weights)
            self._keras.apply([gradient], [self._flat])
            return tf.convert_to_tensor(self._flat), self._values()

        return tf.cond(usable, update, lambda: (weights, self._values()))

    def _values(self):
        return {name: tf.identity(slot) for name, slot in self.slots().items()}


@pytest.mark.parametrize("optimizer", [FlatAdamW, KerasAdamW])
def test_another_task_resumes_to_the_same_weights(train, tmp_path, optimizer):
    whole, _ = train(9, optimizer=optimizer)
    weights = whole.optimizer.weights().numpy()
    *_, last = RunDir(tmp_path / "run").checkpoint_folders()
    shutil.rmtree(last)
    resumed, _ = train(9, resume=True, optimizer=optimizer)
    np.testing.assert_array_equal(resumed.optimizer.weights().numpy(), weights)
