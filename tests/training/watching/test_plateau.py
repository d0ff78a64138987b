"""On made-up courses of losses; the last one goes through real run folders."""

import json
import math

import numpy as np
import pytest

from myxtts.training.best import LossCourse
from myxtts.training.trainer import XTTSTrainer


def lines_of(validation, training, *, rates=None, every=500):
    """Two lines of metrics.jsonl for each evaluation."""
    for number, (on_validation, in_training) in enumerate(
        zip(validation, training, strict=True), 1
    ):
        rate = 1e-3 if rates is None else rates[number - 1]
        for step in (number * every - every // 2, number * every):
            yield {"step": step, "learning_rate": rate, "loss": in_training}
        yield {"step": step, "learning_rate": rate, "validation_loss": on_validation}


def verdicts(course, lines):
    found = ((line["step"], course.update(line["step"], line)) for line in lines)
    return [(step, verdict) for step, verdict in found if verdict is not None]


def noisy(values, noise, seed):
    return values * (1 + noise * np.random.default_rng(seed).standard_normal(len(values)))


def falling(evaluations, power=-0.15):
    return np.arange(1, evaluations + 1.0) ** power


def to_a_floor(evaluations):
    return 0.2 + 0.3 * np.exp(-np.arange(evaluations) / 4)


@pytest.mark.parametrize("evaluations", [1, 3, 7])
def test_a_short_run_has_no_verdict(evaluations):
    course = LossCourse()
    assert verdicts(course, lines_of(np.ones(evaluations), np.ones(evaluations))) == []
    assert course.verdict is None


@pytest.mark.parametrize("every", [2, 2_000])
@pytest.mark.parametrize("noise", [0.0, 0.005, 0.01])
def test_a_loss_that_falls_slowly_is_not_flat(noise, every):
    for seed in range(20):
        course = noisy(falling(60), noise, seed)
        assert verdicts(LossCourse(), lines_of(course, falling(60), every=every)) == []


@pytest.mark.parametrize("noise", [0.0, 0.005, 0.01])
def test_a_flat_loss_is_reported_once_with_the_step_it_began_at(noise):
    for seed in range(20):
        course = noisy(to_a_floor(60), noise, seed)
        rates = np.linspace(1e-3, 1e-5, 60)
        [(step, verdict)] = verdicts(LossCourse(), lines_of(course, course, rates=rates))
        assert verdict.kind == "flat"
        # The ninth is a fifth above the floor, the sixteenth 4 %; the more noise, the later.
        assert 9 * 500 <= verdict.since_step < step <= (40 if noise < 0.01 else 60) * 500
        assert f"{verdict.since_step:,}" in verdict.message


def test_a_high_learning_rate_may_be_the_reason():
    course = to_a_floor(40)
    [(_, early)] = verdicts(LossCourse(), lines_of(course, course))
    assert "100%" in early.message
    low = np.where(np.arange(40) < 8, 1e-3, 1e-4)
    [(_, late)] = verdicts(LossCourse(), lines_of(course, course, rates=low))
    assert "%" not in late.message


def test_a_rising_validation_loss_is_overfitting_only_if_training_still_improves():
    time = np.arange(30.0)
    for training, kind in ((0.6 * 0.97**time, "overfitting"), (0.2 + 0.01 * time, "worse")):
        found = verdicts(LossCourse(), lines_of(0.2 + 0.01 * time, training))
        assert found[-1][1].kind == kind


def test_a_loss_that_falls_again_is_flat_no_longer():
    course = LossCourse()
    values = np.concatenate([np.ones(12), np.linspace(0.95, 0.3, 12)])
    assert [verdict.kind for _, verdict in verdicts(course, lines_of(values, values))] == ["flat"]
    assert course.verdict is None


def test_lines_without_numbers_are_skipped():
    course = to_a_floor(40)
    lines = list(lines_of(course, course))
    bad = [{**lines[2], "validation_loss": math.nan}, {**lines[2], "validation_loss": None}]
    spoilt = [*lines[:3], *bad, {**lines[3], "loss": None}, *lines[3:]]
    assert verdicts(LossCourse(), spoilt) == verdicts(LossCourse(), lines)


def test_a_run_reports_it_and_a_resumed_one_not_again(miniature, corpus, tmp_path, caplog):
    # Without a learning rate nothing changes.
    settings = {"learning_rate": 0.0, "evaluate_every": 1, "save_every": 100, "max_steps": 9}
    run = tmp_path / "run"
    report = XTTSTrainer(miniature(**settings), corpus, run).fit()
    warnings = [record for record in caplog.messages if "flat since step 1." in record]
    assert [warning.partition(":")[0] for warning in warnings] == ["step 8"]
    assert any("flat since" in sentence for sentence in report.advice)
    assert json.loads((run / "report.json").read_text())["advice"] == report.advice
    caplog.clear()
    trainer = XTTSTrainer(miniature(**settings | {"max_steps": 10}), corpus, run)
    trainer.resume()
    assert any("flat since" in sentence for sentence in trainer.fit().advice)
    assert "flat since" not in caplog.text
