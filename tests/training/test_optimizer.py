import keras
import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import TrainingConfig
from myxtts.errors import CheckpointError
from myxtts.training.optimizer import (
    BETA_1,
    BETA_2,
    GOOD_STEPS_TO_GROW,
    WEIGHT_DECAY,
    FlatAdamW,
    FreezeAfter,
    ema_decay_at,
    learning_rate,
)

TOTAL = 50
UPDATE = tf.constant(True)
LOSS = tf.constant(1.0)


def make(**changes):
    generator = np.random.default_rng(0)
    variables = [
        keras.Variable(generator.normal(size=shape).astype(np.float32), name=f"v{index}")
        for index, shape in enumerate([(4, 3), (3,), (2, 2, 2)])
    ]
    training = TrainingConfig(**({"warmup_steps": 5} | changes))
    return variables, training, FlatAdamW(variables, training, TOTAL)


def gradients(step):
    generator = np.random.default_rng(100 + step)
    return [generator.normal(size=shape).astype(np.float32) for shape in [(4, 3), (3,), (2, 2, 2)]]


def test_equals_keras_adamw_with_global_clipping():
    variables, training, optimizer = make(clip_norm=0.7)
    ours = variables
    theirs = [keras.Variable(variable.numpy()) for variable in variables]
    reference = keras.optimizers.AdamW(
        learning_rate=0.0,
        beta_1=BETA_1,
        beta_2=BETA_2,
        weight_decay=WEIGHT_DECAY,
        global_clipnorm=0.7,
        epsilon=1e-8,
    )
    reference.exclude_from_weight_decay(var_list=[theirs[1]])
    reference.build(theirs)
    for step in range(1, 30):
        reference.learning_rate = learning_rate(tf.constant(float(step)), TOTAL, training)
        reference.apply(gradients(step), theirs)
        optimizer.apply(optimizer.flatten(gradients(step)), LOSS, UPDATE)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), atol=2e-6)


def test_the_average_follows_its_definition():
    _, training, optimizer = make(ema_decay=0.9)
    average = optimizer.weights().numpy()
    for step in range(1, 40):
        optimizer.apply(optimizer.flatten(gradients(step)), LOSS, UPDATE)
        decay = min(0.9, (1 + step) / (10 + step))
        average = decay * average + (1 - decay) * optimizer.weights().numpy()
    np.testing.assert_allclose(optimizer.ema.numpy(), average, atol=1e-6)
    assert float(ema_decay_at(tf.constant(1.0), training)) == pytest.approx(2 / 11)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_changes_no_weight(bad):
    _, _, optimizer = make()
    optimizer.apply(optimizer.flatten(gradients(1)), LOSS, UPDATE)
    before = {name: value.copy() for name, value in optimizer.state().items()}
    poisoned = gradients(2)
    poisoned[0][1, 1] = bad
    optimizer.apply(optimizer.flatten(poisoned), LOSS, UPDATE)
    after = optimizer.state()
    for name in before:
        if name != "step" and not name.startswith("average/"):
            np.testing.assert_array_equal(after[name], before[name])
        assert np.isfinite(after[name]).all()
    assert after["step"] == before["step"] + 1


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_changes_no_weight(bad):
    _, _, optimizer = make()
    before = optimizer.weights().numpy()
    optimizer.apply(optimizer.flatten(gradients(1)), tf.constant(bad), UPDATE)
    np.testing.assert_array_equal(optimizer.weights(), before)
    assert not optimizer.first_moment.numpy().any()
    assert int(optimizer.step.numpy()) == 1


def test_the_rate_factor_scales_the_update():
    moved = []
    for factor in (1.0, 0.5):
        _, _, optimizer = make()
        optimizer.rate_factor.assign(factor)
        before = optimizer.weights().numpy()
        optimizer.apply(optimizer.flatten(gradients(1)), LOSS, UPDATE)
        moved.append(optimizer.weights().numpy() - before)
    np.testing.assert_allclose(moved[1], 0.5 * moved[0], atol=1e-6)


def test_averaged_weights_are_lent_and_given_back():
    variables, _, optimizer = make()
    for step in range(1, 5):
        optimizer.apply(optimizer.flatten(gradients(step)), LOSS, UPDATE)
    own = [variable.numpy().copy() for variable in variables]
    with optimizer.ema_weights():
        np.testing.assert_array_equal(optimizer.weights(), optimizer.ema)
        assert not np.array_equal(variables[0].numpy(), own[0])
    for variable, value in zip(variables, own, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_state_goes_out_and_comes_back(tmp_path):
    _, _, optimizer = make()
    for step in range(1, 5):
        optimizer.apply(optimizer.flatten(gradients(step)), LOSS, UPDATE)
    state = {name: value.copy() for name, value in optimizer.state().items()}
    _, _, fresh = make()
    fresh.restore(state, tmp_path)
    for one in (optimizer, fresh):
        one.apply(one.flatten(gradients(9)), LOSS, UPDATE)
    for name, value in optimizer.state().items():
        np.testing.assert_array_equal(fresh.state()[name], value)
    del state["first_moment/v1"]
    with pytest.raises(CheckpointError, match="first_moment/v1 is missing"):
        fresh.restore(state, tmp_path)


def test_the_learning_rate_rises_and_falls():
    training = TrainingConfig(learning_rate=1.0, warmup_steps=10)
    rates = [
        float(learning_rate(tf.constant(float(step)), 100, training))
        for step in (1, 10, 50, 100, 500)
    ]
    assert rates[0] < 0.11
    assert rates[1] == pytest.approx(0.02 + 0.98 * 0.5 * (1 + np.cos(np.pi * 0.1)), rel=1e-5)
    assert rates[2] == pytest.approx(0.51, rel=1e-5)
    assert rates[3] == rates[4] == pytest.approx(0.02, rel=1e-4)


def test_without_update_nothing_changes():
    _, _, optimizer = make()
    optimizer.apply(optimizer.flatten(gradients(1)), LOSS, UPDATE)
    before = optimizer.state()
    norm, _ = optimizer.apply(optimizer.flatten(gradients(2)), LOSS, tf.constant(False))
    assert float(norm) > 0
    for name, value in optimizer.state().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def scaled(optimizer, step):
    return optimizer.flatten(gradients(step)) * optimizer.loss_scale.value


def test_a_loss_scale_changes_no_update():
    _, _, plain = make()
    _, _, optimizer = make(precision="float16")
    for step in range(1, 5):
        plain.apply(plain.flatten(gradients(step)), LOSS, UPDATE)
        norm, _ = optimizer.apply(scaled(optimizer, step), LOSS, UPDATE)
        assert float(norm) == pytest.approx(float(tf.norm(plain.flatten(gradients(step)))))
    np.testing.assert_allclose(optimizer.weights(), plain.weights(), rtol=1e-6)


def test_the_loss_scale_halves_on_a_bad_gradient_and_doubles_after_good_ones():
    _, _, optimizer = make(precision="float16")
    scale = optimizer.loss_scale
    first = float(scale.value)
    optimizer.apply(scaled(optimizer, 1), LOSS, UPDATE)
    weights = optimizer.weights().numpy()
    for share in (2, 4):
        optimizer.apply(scaled(optimizer, 2) * np.inf, LOSS, UPDATE)
        assert float(scale.value) == first / share
        assert int(scale.good_steps) == 0
    np.testing.assert_array_equal(optimizer.weights(), weights)
    scale.good_steps.assign(GOOD_STEPS_TO_GROW - 2)
    seen = []
    for step in range(3):
        optimizer.apply(scaled(optimizer, step), LOSS, UPDATE)
        seen.append((float(scale.value) / first, int(scale.good_steps)))
    assert seen == [(0.25, GOOD_STEPS_TO_GROW - 1), (0.5, 0), (0.5, 1)]
    assert not np.array_equal(optimizer.weights(), weights)


def test_the_loss_scale_never_vanishes_and_waits_without_update():
    _, _, optimizer = make(precision="float16")
    bad = optimizer.flatten(gradients(1)) * np.nan
    optimizer.loss_scale.value.assign(1.0)
    optimizer.apply(bad, LOSS, UPDATE)
    assert float(optimizer.loss_scale.value) == 1.0
    optimizer.loss_scale.value.assign(8.0)
    before = optimizer.state()
    for gradient in (bad, scaled(optimizer, 1)):
        optimizer.apply(gradient, LOSS, tf.constant(False))
        for name, value in optimizer.state().items():
            np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_a_loss_scale_is_saved_and_may_be_missing(tmp_path):
    _, _, optimizer = make(precision="float16")
    optimizer.apply(scaled(optimizer, 1), LOSS, UPDATE)
    optimizer.loss_scale.value.assign(64.0)
    _, _, fresh = make(precision="float16")
    fresh.restore(optimizer.state(), tmp_path)
    assert (float(fresh.loss_scale.value), int(fresh.loss_scale.good_steps)) == (64.0, 1)
    _, _, without = make()
    without.restore(optimizer.state(), tmp_path)
    np.testing.assert_array_equal(without.weights(), optimizer.weights())
    fresh.restore(without.state(), tmp_path)
    assert float(fresh.loss_scale.value) == 64.0


def test_frozen_weights_change_in_nothing_and_count_in_nothing():
    """The others are trained as if the frozen ones did not exist: clipping, decay and average."""
    variables, training, optimizer = make(freeze="v0", clip_norm=0.5, ema_decay=0.9)
    before = variables[0].numpy().copy()
    others = [keras.Variable(one.numpy(), name=one.name) for one in variables[1:]]
    alone = FlatAdamW(others, TrainingConfig(**(vars(training) | {"freeze": None})), TOTAL)
    for step in range(1, 6):
        norms = [
            float(one.apply(one.flatten(gradients(step)[1:]), LOSS, UPDATE)[0])
            for one in (optimizer, alone)
        ]
        assert norms[0] == norms[1] > training.clip_norm
    np.testing.assert_array_equal(variables[0].numpy(), before)
    state = optimizer.state()
    for kind in ("weights", "average"):
        np.testing.assert_array_equal(state[f"{kind}/v0"], before)
    for name, value in alone.state().items():
        np.testing.assert_array_equal(state[name], value, err_msg=name)


def test_what_is_frozen_may_be_another_when_a_run_continues(tmp_path):
    _, _, optimizer = make(freeze="v2")
    for step in range(1, 4):
        optimizer.apply(optimizer.flatten(gradients(step)[:2]), LOSS, UPDATE)
    state = optimizer.state()
    variables, _, other = make(freeze="v0")
    other.restore(state, tmp_path)
    # With its averaged weights the run speaks, so they are what is worth keeping.
    np.testing.assert_array_equal(variables[0].numpy(), state["average/v0"])
    np.testing.assert_array_equal(variables[1].numpy(), state["weights/v1"])
    other.apply(other.flatten(gradients(4)[1:]), LOSS, UPDATE)
    after = other.state()
    np.testing.assert_array_equal(after["weights/v0"], state["average/v0"])
    for name in ("v1", "v2"):
        assert not np.array_equal(after[f"weights/{name}"], state[f"weights/{name}"])
    assert int(after["step"]) == 4


def test_resting_weights_take_their_averages_and_keep_them():
    variables, training, _ = make(ema_decay=0.9)
    resting = variables[2]
    optimizer = FlatAdamW(variables, training, TOTAL, FreezeAfter(10, frozenset({resting.path})))
    for step in range(1, 21):
        if step == 11:
            average = optimizer.state()[f"average/{resting.path}"]
            moving = variables[0].numpy()
            # Trying a step changes nothing.
            before = resting.numpy()
            optimizer.apply(optimizer.flatten(gradients(step)), LOSS, tf.constant(False))
            np.testing.assert_array_equal(resting.numpy(), before)
        optimizer.apply(optimizer.flatten(gradients(step)), LOSS, UPDATE)
        if step >= 11:
            np.testing.assert_allclose(resting.numpy(), average, rtol=1e-6)
    assert np.abs(average - before).max() > 1e-4
    assert np.abs(variables[0].numpy() - moving).min() > 0
