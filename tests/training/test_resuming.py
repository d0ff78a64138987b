"""What a killed run still owes is made up when it is resumed; a changed corpus is noticed."""

import dataclasses
import json
import shutil
import signal

import pytest

from myxtts.cli.main import main
from myxtts.data.corpus import BATCH_PLAN, TRAINING_CLIPS, open_corpus
from myxtts.errors import CheckpointError
from myxtts.runs.run_dir import RunDir, find_checkpoint
from myxtts.training.interruption import Interruption
from myxtts.training.output import RunWriter
from myxtts.training.report import Observer
from myxtts.training.trainer import XTTSTrainer, require_same_corpus


class KilledError(Exception):
    """In the place of a kill: nothing after it happens."""


def kill_before_line(monkeypatch, step):
    """End a run when its checkpoint is saved but its line is not."""

    def write_metrics(self, at, metrics):
        if at == step:
            monkeypatch.undo()
            raise KilledError
        write(self, at, metrics)

    write = RunWriter.write_metrics
    monkeypatch.setattr(RunWriter, "write_metrics", write_metrics)


def losses(run):
    """Return the lines, without what is measured in seconds."""
    kept = ("step", "learning_rate", "gradient_norm", "valid_frame_ratio")
    return [
        {name: value for name, value in line.items() if name in kept or name.endswith("loss")}
        for line in RunDir(run).metric_lines()
    ]


def report_of(run):
    report = json.loads((run / "report.json").read_text())
    return {name: report[name] for name in ("state", "steps", "best", "valid_work_ratio")}


@pytest.mark.parametrize("step", [pytest.param(3, marks=pytest.mark.slow), 6])
def test_an_evaluation_lost_to_a_kill_is_made_up(
    trained_run, miniature, corpus, tmp_path, monkeypatch, step
):
    kill_before_line(monkeypatch, step)
    with pytest.raises(KilledError):
        XTTSTrainer(miniature(), corpus, tmp_path / "run").fit()
    assert find_checkpoint(tmp_path / "run").info.step == step
    assert len(losses(tmp_path / "run")) < len(losses(trained_run))
    resumed = XTTSTrainer(miniature(), corpus, tmp_path / "run")
    assert resumed.resume() == step
    resumed.fit()
    assert losses(tmp_path / "run") == losses(trained_run)
    assert report_of(tmp_path / "run") == report_of(trained_run)
    kept = [RunDir(run).best_checkpoint().info.step for run in (tmp_path / "run", trained_run)]
    assert kept[0] == kept[1]


def test_an_interval_of_the_log_continues_over_a_checkpoint(
    miniature, corpus, tmp_path, monkeypatch
):
    config = miniature(log_every=4, save_every=3, evaluate_every=100, max_steps=6)
    XTTSTrainer(config, corpus, tmp_path / "whole").fit()
    kill_before_line(monkeypatch, 4)
    with pytest.raises(KilledError):
        XTTSTrainer(config, corpus, tmp_path / "run").fit()
    resumed = XTTSTrainer(config, corpus, tmp_path / "run")
    assert resumed.resume() == 3
    resumed.fit()
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")


class StopAt(Observer):
    def __init__(self, interruption, step):
        self._interruption, self._step = interruption, step

    def on_step(self, step, total, metrics):
        if step == self._step:
            self._interruption.signal = signal.SIGTERM


def test_a_run_told_to_stop_leaves_its_evaluation_to_the_resumed_one(
    trained_run, miniature, corpus, tmp_path
):
    interruption = Interruption()
    stopped = XTTSTrainer(
        miniature(),
        corpus,
        tmp_path / "run",
        interruption=interruption,
        observer=StopAt(interruption, 2),
    )
    report = stopped.fit()
    assert (report.state, report.steps) == ("interrupted", 3)
    resumed = XTTSTrainer(miniature(), corpus, tmp_path / "run")
    resumed.resume()
    resumed.fit()
    assert losses(tmp_path / "run") == losses(trained_run)
    assert report_of(tmp_path / "run") == report_of(trained_run)


def test_a_finished_run_says_so_and_is_left_as_it_is(trained_run, demo_corpus, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(trained_run, run)
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    assert main(["train", str(demo_corpus), "--resume", str(run)]) == 0
    shown = capsys.readouterr().out
    assert f"{run}: is finished, complete after 6 steps" in shown
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()} == before
    # A shorter length is a contradiction; without its report the run only gets that.
    assert main(["train", str(demo_corpus), "--resume", str(run), "--max-steps=5"]) == 2
    assert "has already trained 6 steps" in capsys.readouterr().err
    (run / "report.json").unlink()
    assert main(["train", str(demo_corpus), "--resume", str(run)]) == 0
    assert report_of(run) == report_of(trained_run)
    assert losses(run) == losses(trained_run)


@pytest.mark.parametrize("loses_line", [False, True])
def test_a_run_that_stopped_early_stays_so(miniature, corpus, tmp_path, loses_line):
    config = miniature(
        max_steps=40,
        evaluate_every=1,
        early_stopping_evaluations=1,
        learning_rate=0.0,
        save_every=50,
    )
    report = XTTSTrainer(config, corpus, tmp_path / "run").fit()
    assert report.state == "stopped early"
    before = losses(tmp_path / "run")
    # A power cut may cost the last line, which is not on the disk when the checkpoint is.
    metrics = RunDir(tmp_path / "run").metrics_file
    if loses_line:
        metrics.write_bytes(b"".join(metrics.read_bytes().splitlines(keepends=True)[:-1]))
    resumed = XTTSTrainer(config, corpus, tmp_path / "run")
    resumed.resume()
    again = resumed.fit()
    assert (again.state, again.steps) == (report.state, report.steps)
    assert losses(tmp_path / "run") == before


@pytest.fixture
def copied_corpus(demo_corpus, tmp_path):
    folder = tmp_path / "corpus"
    shutil.copytree(demo_corpus, folder, ignore=shutil.ignore_patterns("myxtts-cache"))
    return folder


def reverse_rows(folder):
    for file in folder.glob("metadata*.csv"):
        header, *rows = file.read_text(encoding="utf-8").splitlines()
        file.write_text("\n".join([header, *reversed(rows)]) + "\n", encoding="utf-8")


def remove_a_row(folder):
    file = next(folder.glob("metadata*.csv"))
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")


@pytest.mark.parametrize("change", [reverse_rows, remove_a_row])
def test_a_changed_corpus_is_named_and_refused_unless_asked_for(
    miniature, copied_corpus, trained_run, tmp_path, caplog, change
):
    """The run was trained on the same clips, in another folder."""
    run = tmp_path / "run"
    shutil.copytree(trained_run, run)
    config = miniature(train_data=str(copied_corpus), max_steps=8, workers=1)
    assert XTTSTrainer(config, open_corpus(config), run).resume() == 6
    change(copied_corpus)
    vocabulary = find_checkpoint(run).tokenizer()
    trainer = XTTSTrainer(config, open_corpus(config, vocabulary=vocabulary), run)
    with pytest.raises(CheckpointError, match="clips are not those of the run so far") as caught:
        trainer.resume()
    assert "--allow-changed-corpus" in str(caught.value)
    assert trainer.resume(allow_changed_corpus=True) == 6
    assert "clips are not those of the run so far" in caplog.text


@pytest.mark.parametrize(
    ("differs", "settings", "excuse"),
    [
        (TRAINING_CLIPS, {"max_text_length": 150}, "data.max_text_length"),
        # The same clips come in other batches; other clips do not come of it.
        (TRAINING_CLIPS, {"batch_size": 2, "gradient_accumulation_steps": 2}, None),
        (BATCH_PLAN, {"batch_size": 2}, "data.batch_size"),
        (BATCH_PLAN, {"learning_rate": 0.5}, None),
    ],
)
def test_a_changed_setting_excuses_only_what_it_decides(
    trained_run, miniature, corpus, caplog, differs, settings, excuse
):
    checkpoint = find_checkpoint(trained_run)
    count, _, _ = checkpoint.info.corpus[differs].rpartition(" ")
    fingerprints = checkpoint.info.corpus | {differs: f"{count} other"}
    info = dataclasses.replace(checkpoint.info, corpus=fingerprints)
    checkpoint = dataclasses.replace(checkpoint, info=info)
    if excuse is None:
        with pytest.raises(CheckpointError, match=f"the {differs} .* of the run so far"):
            require_same_corpus(
                checkpoint, corpus.fingerprints(), miniature(**settings), allowed=False
            )
    else:
        require_same_corpus(checkpoint, corpus.fingerprints(), miniature(**settings), allowed=False)
        assert f"since {excuse} has changed" in caplog.text
