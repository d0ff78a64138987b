"""On made-up courses of losses; the last one goes through real run folders."""

import json
import math

import numpy as np
import pytest

from myxtts.training.best import LossCourse
from myxtts.training.trainer import XTTSTrainer

PARTS = ("prior", "duration", "flow")
LINES_PER_EVALUATION = 2


def lines_of(validation, training, *, rates=None, every=500):
    """Lines of metrics.jsonl; both losses as [evaluations, parts], or totals to be split evenly."""
    validation, training = (_parts(values) for values in (validation, training))
    for number, (on_validation, in_training) in enumerate(
        zip(validation, training, strict=True), 1
    ):
        for line in range(1, LINES_PER_EVALUATION + 1):
            step = (number - 1) * every + line * every // LINES_PER_EVALUATION
            rate = 1e-3 if rates is None else rates[number - 1]
            metrics = {"step": step, "learning_rate": rate} | _named("", in_training)
            if line == LINES_PER_EVALUATION:
                metrics |= _named("validation_", on_validation)
            yield metrics


def _parts(values):
    values = np.asarray(values, float)
    return values if values.ndim == 2 else np.stack([values / 3] * 3, axis=1)


def _named(prefix, parts):
    named = {f"{prefix}{name}_loss": value for name, value in zip(PARTS, parts, strict=True)}
    return {f"{prefix}loss": float(sum(parts)), **named}


def verdicts(watch, lines):
    told = ((line["step"], watch.update(line["step"], line)) for line in lines)
    return [(step, verdict) for step, verdict in told if verdict is not None]


def noisy(values, noise, seed):
    return values * (1 + noise * np.random.default_rng(seed).standard_normal(len(values)))


def falling(evaluations, power=-0.15):
    return np.arange(1, evaluations + 1.0) ** power


def to_a_floor(evaluations):
    return 0.2 + 0.3 * np.exp(-np.arange(evaluations) / 4)


@pytest.mark.parametrize("evaluations", [1, 3, 7])
def test_a_short_run_is_told_nothing(evaluations):
    watch = LossCourse()
    assert verdicts(watch, lines_of(np.ones(evaluations), np.ones(evaluations))) == []
    assert watch.verdict is None


@pytest.mark.parametrize("every", [1, 2_000])
@pytest.mark.parametrize("noise", [0.0, 0.005, 0.01])
def test_a_loss_that_falls_slowly_is_not_flat(noise, every):
    for seed in range(20):
        course = noisy(falling(60), noise, seed)
        assert verdicts(LossCourse(), lines_of(course, falling(60), every=every)) == []


@pytest.mark.parametrize("noise", [0.0, 0.005, 0.01])
def test_a_flat_loss_is_said_once_with_the_step_it_began_at(noise):
    for seed in range(20):
        course = noisy(to_a_floor(60), noise, seed)
        rates = np.linspace(1e-3, 1e-5, 60)
        [(step, verdict)] = verdicts(LossCourse(), lines_of(course, course, rates=rates))
        assert verdict.kind == "flat"
        # The ninth is a fifth above the floor, the sixteenth 4 %; the more noise, the later.
        assert 9 * 500 <= verdict.since_step < step <= (40 if noise < 0.01 else 60) * 500
        assert f"been flat since step {verdict.since_step:,} (0." in verdict.message
        assert "check with myxtts evaluate" in verdict.message


def test_a_high_learning_rate_may_be_the_reason():
    course = to_a_floor(40)
    [(_, early)] = verdicts(LossCourse(), lines_of(course, course))
    assert "learning rate is still at 100% of its peak" in early.message
    assert "Training longer gains little" not in early.message
    low = np.where(np.arange(40) < 8, 1e-3, 1e-4)
    [(_, late)] = verdicts(LossCourse(), lines_of(course, course, rates=low))
    assert "Training longer gains little" in late.message
    assert "peak" not in late.message


def test_what_is_learnt_by_heart_is_named():
    time = np.arange(30.0)
    training = np.stack([0.3 * 0.97**time, 0.2 * 0.9**time, 0.1 * 0.97**time], axis=1)
    validation = training.copy()
    validation[:, 1] = 0.1 + 0.01 * time
    found = verdicts(LossCourse(), lines_of(validation, training))
    kinds = [verdict.kind for _, verdict in found]
    assert kinds[-1] == "overfitting"
    message = found[-1][1].message
    assert "overfitting" in message
    assert "mostly its duration part" in message
    assert "augmentation.speed" in message


def test_a_part_may_rise_behind_a_loss_that_stays():
    time = np.arange(30.0)
    validation = np.stack([0.4 - 0.005 * time, 0.1 + 0.005 * time, 0.1 + 0 * time], axis=1)
    training = np.stack([0.4 - 0.005 * time, 0.1 - 0.003 * time, 0.1 + 0 * time], axis=1)
    [(_, verdict)] = verdicts(LossCourse(), lines_of(validation, training))
    assert verdict.kind == "flat"
    assert "Its duration part rises" in verdict.message


def test_getting_worse_in_training_too_is_not_overfitting():
    course = 0.2 + 0.01 * np.arange(12)
    [(_, verdict)] = verdicts(LossCourse(), lines_of(course, course))
    assert verdict.kind == "worse"
    assert "lower training.learning_rate" in verdict.message


def test_a_loss_that_falls_again_is_flat_no_longer():
    watch = LossCourse()
    course = np.concatenate([np.ones(12), np.linspace(0.95, 0.3, 12)])
    assert [verdict.kind for _, verdict in verdicts(watch, lines_of(course, course))] == ["flat"]
    assert watch.verdict is None


def test_lines_without_numbers_are_passed_over():
    course = to_a_floor(40)
    lines = list(lines_of(course, course))
    spoilt = [
        line | {"loss": None} if line["step"] % 1_000 == 250 else line
        for line in [*lines[:20], {**lines[20], "validation_loss": math.nan}, *lines[20:]]
    ]
    [(step, verdict)] = verdicts(LossCourse(), lines)
    [(step_of_spoilt, verdict_on_spoilt)] = verdicts(LossCourse(), spoilt)
    assert (step_of_spoilt, verdict_on_spoilt.message) == (step, verdict.message)


def test_a_run_says_it_and_a_resumed_one_does_not_say_it_again(miniature, corpus, tmp_path, caplog):
    # Without a learning rate nothing changes.
    settings = {"learning_rate": 0.0, "evaluate_every": 1, "save_every": 100, "max_steps": 9}
    run = tmp_path / "run"
    report = XTTSTrainer(miniature(**settings), corpus, run).fit()
    said = [record for record in caplog.messages if "has been flat since step 1 " in record]
    assert len(said) == 1
    assert said[0].startswith("step 8: ")
    assert any("has been flat" in sentence for sentence in report.advice)
    assert json.loads((run / "report.json").read_text())["advice"] == report.advice
    caplog.clear()
    trainer = XTTSTrainer(miniature(**settings | {"max_steps": 10}), corpus, run)
    trainer.resume()
    assert any("has been flat" in sentence for sentence in trainer.fit().advice)
    assert "has been flat" not in caplog.text
