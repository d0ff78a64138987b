"""Real training on batches whose sound is spoilt on its way to the model."""

import json
import math

import numpy as np
import pytest
from safetensors.numpy import load_file

from myxtts.config.config import LossParts
from myxtts.data.batch import BatchLoader
from myxtts.errors import NonFiniteLossError
from myxtts.runs.run_dir import RunDir, find_checkpoint
from myxtts.training.divergence import DivergenceMonitor, TooManyBadStepsError
from myxtts.training.step import StepResult
from myxtts.training.trainer import XTTSTrainer


def result(loss, norm=1.0):
    return StepResult(loss, LossParts(loss, 0.0, 0.0, 0.0, 0.0, 0.0), norm, 1e-3)


@pytest.fixture
def watch(corpus, tmp_path):
    return DivergenceMonitor(corpus.train, tmp_path)


def batch_of(corpus, miniature, step=1):
    loader = BatchLoader(corpus.train.cache, corpus.tokenizer, miniature())
    return loader.load(corpus.train.schedule.batch_at(step - 1))


@pytest.mark.parametrize(("loss", "norm"), [(math.nan, 1.0), (math.inf, 1.0), (1.0, math.nan)])
def test_a_bad_step_names_its_clips(watch, corpus, caplog, loss, norm):
    watch.check(3, None, result(loss, norm))
    for clip in corpus.train.schedule.batch_at(2).clips:
        assert str(corpus.train.cache.audio_path(int(clip))) in caplog.text


def test_bad_steps_in_a_row_lead_back_and_then_to_an_end(watch, corpus, miniature, tmp_path):
    batch = batch_of(corpus, miniature)
    for _ in range(3):
        for step in (1, 2, 3, 4):
            watch.check(step, batch, result(math.nan))
        with pytest.raises(TooManyBadStepsError):
            watch.check(5, batch, result(math.nan))
    for step in (1, 2, 3, 4):
        watch.check(step, batch, result(math.nan))
    with pytest.raises(NonFiniteLossError, match="step_00000005: listen to its clips"):
        watch.check(5, batch, result(math.nan))
    kept = load_file(tmp_path / "step_00000005" / "batch.safetensors")
    np.testing.assert_array_equal(kept["mel"], batch.mel)
    evidence = json.loads((tmp_path / "step_00000005" / "evidence.json").read_text())
    assert evidence["metrics"]["loss"] == "nan"
    assert len(evidence["clips"]) == 4


def test_a_loss_scale_that_finds_itself_is_no_bad_step(watch, caplog):
    for step in range(1, 40):
        watch.check(step, None, result(1.0, math.inf), scale_may_be_too_large=True)
    assert not caplog.messages
    watch.check(40, None, result(math.nan, math.inf), scale_may_be_too_large=True)
    assert len(caplog.messages) == 1


def test_a_good_step_breaks_the_row(watch):
    for step in range(1, 40):
        watch.check(step, None, result(math.nan if step % 5 else 1.0))


def test_long_good_training_forgives(watch, corpus, miniature):
    batch = batch_of(corpus, miniature)
    for _ in range(6):
        for _ in range(4):
            watch.check(1, batch, result(math.nan))
        with pytest.raises(TooManyBadStepsError):
            watch.check(1, batch, result(math.nan))
        for step in range(500):
            watch.check(step + 1, batch, result(1.0))


def test_a_spike_is_warned_of_once(watch, corpus, caplog):
    for step in range(1, 40):
        watch.check(step, None, result(1.0 + 0.1 * (step % 3)))
    assert caplog.text == ""
    for step in (40, 41, 42):
        watch.check(step, None, result(50.0))
    watch.check(43, None, result(1.0))
    watch.check(44, None, result(50.0))
    warned = [record.getMessage() for record in caplog.records]
    assert [line.split(":")[0] for line in warned] == ["step 40", "step 44"]
    assert "against a median of 1.1" in warned[0]


class Spoilt(BatchLoader):
    """A source of batches, with NaN where `is_bad` is true."""

    is_bad = staticmethod(lambda planned: False)

    def load(self, planned):
        batch = super().load(planned)
        if Spoilt.is_bad(planned):
            batch.mel[:] = np.nan
        return batch


def test_training_goes_back_with_a_lower_rate_and_reaches_its_end(
    miniature, corpus, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr("myxtts.data.pipeline.BatchLoader", Spoilt)
    config = miniature(save_every=2, max_steps=8, evaluate_every=100, log_every=1)
    trainer = XTTSTrainer(config, corpus, tmp_path / "run")
    trainer.prepare()
    schedule = corpus.train.schedule
    spoilt = {schedule.batch_at(step - 1).reference_starts.tobytes() for step in range(3, 8)}

    def only_at_first(planned):
        at_first = float(trainer.optimizer.rate_factor.numpy()) == 1.0
        return at_first and planned.reference_starts.tobytes() in spoilt

    monkeypatch.setattr(Spoilt, "is_bad", staticmethod(only_at_first))
    report = trainer.fit()
    assert report.steps == 8
    # Those of steps 4 and 6 were not saved: the row of bad steps had begun.
    assert "too many bad steps in a row: continuing from step 2 with 0.5" in caplog.text
    state = find_checkpoint(tmp_path / "run").training_state()
    assert float(state["rate_factor"]) == 0.5
    assert all(np.isfinite(value).all() for value in state.values())
    lines = RunDir(tmp_path / "run").metric_lines()
    assert [line["step"] for line in lines] == list(range(1, 9))
    assert None not in [line["loss"] for line in lines]


def test_a_run_that_ends_in_bad_steps_has_no_result(miniature, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("myxtts.data.pipeline.BatchLoader", Spoilt)
    monkeypatch.setattr(Spoilt, "is_bad", staticmethod(lambda planned: True))
    trainer = XTTSTrainer(miniature(max_steps=5), corpus, tmp_path / "run")
    with pytest.raises(NonFiniteLossError, match="no checkpoint to roll back to"):
        trainer.fit()
