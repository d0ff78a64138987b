"""The best checkpoint of real runs; what measures it is a stand-in that answers at once."""

import json
import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from myxtts.config.config import EvaluationConfig
from myxtts.runs.checkpoint import FILES_OF_RUN, CheckpointInfo, save_checkpoint
from myxtts.runs.run_dir import RunDir, append_line, find_checkpoint, take_snapshot
from myxtts.synthesis.tts import TTS
from myxtts.training.best import BestTracker
from myxtts.training.interruption import Interruption
from myxtts.training.output import RunWriter
from myxtts.training.report import Observer
from myxtts.training.trainer import XTTSTrainer


@dataclass
class Answer:
    step: int
    values: dict[str, float]
    snapshot: Path


@dataclass
class ScriptedMeasurer:
    """Gives each measured step its word error rate, one poll later."""

    folder: Path
    rates: dict[int, float]
    started: list[int] = field(default_factory=list)
    waiting: list[Answer] = field(default_factory=list)

    @property
    def is_busy(self):
        return bool(self.waiting)

    def start(self, step, checkpoint):
        self.started.append(step)
        snapshot = take_snapshot(checkpoint, self.folder / str(step))
        self.waiting.append(Answer(step, {"wer": self.rates[step]}, snapshot))

    def poll(self):
        answers = [answer for answer in self.waiting if answer.step < self.started[-1]]
        self.waiting = [answer for answer in self.waiting if answer not in answers]
        return answers

    def wait(self, timeout_seconds=None):
        answers, self.waiting = self.waiting, []
        return answers


def lines(run, file="metrics.jsonl"):
    return [json.loads(line) for line in (run / file).read_text().splitlines()]


def test_the_best_by_what_it_says_is_spoken_with(trained_run, tmp_path, caplog):
    report = json.loads((trained_run / "report.json").read_text())
    distances = {line["step"]: line.get("validation_mel_distance") for line in lines(trained_run)}
    distances = {step: distance for step, distance in distances.items() if distance is not None}
    best = min(distances, key=distances.get)
    assert report["best"] == {
        "metric": "validation_mel_distance",
        "step": best,
        "value": pytest.approx(distances[best]),
    }
    run = tmp_path / "run"
    shutil.copytree(trained_run, run)
    newest = max((run / "checkpoints").iterdir())
    shutil.rmtree(run / "best")
    assert TTS(run).step == 6
    RunDir(run).keep_as_best(min((run / "checkpoints").iterdir()))
    assert TTS(run).step == 3
    weights = run / "best" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert find_checkpoint(run, for_synthesis=True).folder == newest
    assert "trying the newest checkpoint instead" in caplog.text


def test_the_best_by_a_measure_outlives_its_checkpoint(miniature, corpus, tmp_path):
    config = miniature(
        max_steps=8,
        evaluate_every=2,
        save_every=100,
        keep_checkpoints=1,
        measure_every=1,
        best_metric="wer",
    )
    measurer = ScriptedMeasurer(tmp_path / "measured", {2: 0.9, 4: 0.3, 6: 0.5, 8: 0.4})
    run = tmp_path / "run"
    report = XTTSTrainer(config, corpus, run, measurer=measurer).fit()
    assert measurer.started == [2, 4, 6, 8]
    assert report.best == {"metric": "wer", "step": 4, "value": 0.3}
    assert json.loads((run / "report.json").read_text())["best"] == report.best
    assert find_checkpoint(run / "best", for_synthesis=True).info.step == 4
    assert [folder.name for folder in (run / "checkpoints").iterdir()] == ["step_00000008"]
    measured = [(line["step"], line["wer"]) for line in lines(run, "measures.jsonl")]
    assert measured == [(2, 0.9), (4, 0.3), (6, 0.5), (8, 0.4)]
    assert {line["measuring"] for line in lines(run)} == {0.0, 1.0}


def test_only_every_nth_evaluation_is_measured(miniature, corpus, tmp_path):
    config = miniature(max_steps=8, evaluate_every=2, measure_every=2)
    measurer = ScriptedMeasurer(tmp_path / "measured", dict.fromkeys(range(9), 0.5))
    XTTSTrainer(config, corpus, tmp_path / "run", measurer=measurer).fit()
    assert measurer.started == [4, 8]


@pytest.mark.parametrize(("measured", "started"), [([], [6]), ([3], [6]), ([3, 6], [])])
def test_a_measurement_that_a_kill_cut_off_is_made_again(tmp_path, measured, started):
    run = RunDir(tmp_path / "run")
    for step in (3, 6):
        info = CheckpointInfo(step=step, mel_mean=0.0, mel_deviation=1.0)
        state = {"step": np.array(step), "average/a": np.zeros(2, np.float32)}
        files = dict.fromkeys(FILES_OF_RUN, b"{}")
        save_checkpoint(run.checkpoints, info, state, files, keep=3)
        append_line(run.metrics_file, step, {"validation_loss": 1.0})
    for step in measured:
        append_line(run.measures_file, step, {"wer": 0.5})
    settings = EvaluationConfig(evaluate_every=3, measure_every=1, best_metric="wer")
    measurer = ScriptedMeasurer(tmp_path / "measured", dict.fromkeys(range(9), 0.5))
    BestTracker(run, settings, RunWriter(run, 6), Observer(), measurer)
    assert measurer.started == started


def test_a_run_stops_when_it_gets_no_better_and_a_resumed_one_remembers(
    miniature, corpus, tmp_path
):
    settings = {
        "max_steps": 20,
        "evaluate_every": 2,
        "save_every": 100,
        "measure_every": 1,
        "best_metric": "wer",
        "early_stopping_evaluations": 2,
    }
    rates = {2: 0.2} | dict.fromkeys(range(4, 22, 2), 0.5)
    run = tmp_path / "run"
    measurer = ScriptedMeasurer(tmp_path / "measured", rates)
    report = XTTSTrainer(miniature(**settings), corpus, run, measurer=measurer).fit()
    # The rates of steps 4 and 6 are known when step 8 is evaluated.
    assert report.steps == 8
    assert find_checkpoint(run).info.step == 8
    shutil.rmtree(tmp_path / "measured")
    patient = settings | {"early_stopping_evaluations": 100, "max_steps": 10}
    trainer = XTTSTrainer(miniature(**patient), corpus, run, measurer=measurer)
    trainer.resume()
    assert trainer.fit().best == {"metric": "wer", "step": 2, "value": 0.2}
    assert find_checkpoint(run / "best", for_synthesis=True).info.step == 2


@pytest.mark.slow
def test_a_best_one_that_cannot_be_kept_costs_a_warning_and_not_the_run(
    miniature, corpus, tmp_path, caplog
):
    run = tmp_path / "run"
    run.mkdir()
    (run / "best").write_text("in the way")
    report = XTTSTrainer(miniature(), corpus, run).fit()
    assert report.steps == 6
    assert find_checkpoint(run).info.step == 6
    assert "the best checkpoint is not saved separately" in caplog.text


def test_a_run_that_is_told_to_stop_does_not_wait_for_measurements(miniature, corpus, tmp_path):
    interruption = Interruption()

    class NeverDone(ScriptedMeasurer):
        def start(self, step, checkpoint):
            super().start(step, checkpoint)
            interruption.signal = signal.SIGINT

        def wait(self, timeout_seconds=None):
            raise AssertionError("waited")

    measurer = NeverDone(tmp_path / "measured", {3: 0.5})
    trainer = XTTSTrainer(
        miniature(measure_every=1),
        corpus,
        tmp_path / "run",
        measurer=measurer,
        interruption=interruption,
    )
    assert trainer.fit().steps == 4
