"""A whole run in one call, as a Python user makes it."""

import re
import subprocess
import sys

import pytest

import myxtts
from myxtts.errors import CheckpointError
from myxtts.runs.run_dir import RunDir
from myxtts.training.report import Observer


class Recorder(Observer):
    def __init__(self):
        self.notices, self.phases, self.ends, self.steps = [], [], [], []

    def on_notice(self, message):
        self.notices.append(message)

    def on_phase(self, message):
        self.phases.append(message)

    def on_progress(self, step, total):
        self.steps.append((step, total))

    def on_end(self, report, next_command):
        self.ends.append((report, next_command))


@pytest.fixture(scope="module")
def run(tmp_path_factory, miniature):
    """Folder, report and what was said of a short run, where another was killed before it saved."""
    folder = tmp_path_factory.mktemp("one_call") / "run"
    (folder / "checkpoints" / ".step_00000003.00000000.part").mkdir(parents=True)
    (folder / "config.yaml").write_text("{}")
    (folder / "metrics.jsonl").write_text('{"step": 2, "time": 1.0, "loss": 9e9}\n')
    recorder = Recorder()
    report = myxtts.train(miniature(max_steps=4), folder, observer=recorder)
    return folder, report, recorder


def test_one_call_trains_into_the_folder_and_returns_its_report(run):
    folder, report, recorder = run
    assert report.state == "complete"
    assert report.is_complete
    assert (report.steps, report.planned_steps) == (4, 4)
    assert report.run_dir == folder
    assert RunDir(folder).newest_checkpoint().info.step == 4
    ((reported, next_command),) = recorder.ends
    assert reported == report
    assert next_command.startswith(f"myxtts synthesize {folder} --text ")


def test_a_run_that_saved_nothing_leaves_nothing_behind(run):
    folder, _, _ = run
    assert all(line["loss"] < 9e9 for line in RunDir(folder).metric_lines())
    assert not list((folder / "checkpoints").glob(".*"))


def test_an_observer_hears_what_the_command_shows(run):
    folder, _, recorder = run
    told = "\n".join(recorder.notices)
    for beginning in ("Final Training Configuration", "Mode: ", "Corpus: "):
        assert any(notice.startswith(beginning) for notice in recorder.notices), told
    assert f"Run folder: {folder}" in recorder.notices
    model, device, look = recorder.notices[-3:]
    assert model.startswith("Model: tiny, ")
    assert re.fullmatch(r"Device: CPU, \d+ cores?: .* slow; about \d+ seconds? for 4 steps", device)
    assert look == f"Look: myxtts dashboard {folder}; listen: {folder}/samples/"
    assert "first step" in recorder.phases
    assert recorder.steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_folder_that_holds_a_run_is_not_trained_into_again(run, miniature):
    folder, _, _ = run
    with pytest.raises(CheckpointError, match="already contains a run; continue it with --resume"):
        myxtts.train(miniature(max_steps=4), folder)


def test_resuming_continues_and_starting_from_it_does_not_change_it(run, miniature, tmp_path):
    folder, _, _ = run
    before = RunDir(folder).newest_checkpoint().weights_checksum()
    started = myxtts.train(miniature(max_steps=1), tmp_path / "other", init_from=folder)
    assert started.steps == 1
    assert RunDir(folder).newest_checkpoint().weights_checksum() == before
    resumed = myxtts.train(miniature(max_steps=5), folder, resume=True)
    assert resumed.steps == 5
    recorder = Recorder()
    assert myxtts.train(miniature(max_steps=5), folder, resume=True, observer=recorder).steps == 5
    (notice,) = recorder.notices
    assert "is finished, complete after 5 steps" in notice
    with pytest.raises(CheckpointError, match="resume: cannot be combined with init_from"):
        myxtts.train(miniature(), folder, resume=True, init_from=folder)
    with pytest.raises(CheckpointError, match="needs run_dir, the folder of the run"):
        myxtts.train(miniature(), resume=True)


def test_without_a_folder_it_takes_the_next_number(miniature, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "0001").mkdir(parents=True)
    report = myxtts.train(miniature(max_steps=1), None)
    assert report.run_dir.parts == ("runs", "0002")


def test_importing_the_entry_does_not_load_tensorflow():
    program = "import sys, myxtts; myxtts.train; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
