import os
from pathlib import Path

import numpy as np
import pytest

from myxtts.errors import CheckpointError
from myxtts.runs.checkpoint import FILES_OF_RUN, CheckpointInfo, save_checkpoint
from myxtts.runs.run_dir import RunDir, find_checkpoint

STATE = {"weights/a": np.zeros(2, np.float32), "average/a": np.ones(2, np.float32)}


def save(run, step):
    info = CheckpointInfo(step=step, mel_mean=0.0, mel_deviation=1.0)
    files = dict.fromkeys(FILES_OF_RUN, b"{}")
    return save_checkpoint(run.checkpoints, info, STATE, files, keep=3)


def start(run):
    """Return what a run folder has before the first checkpoint."""
    run.make()
    for name in FILES_OF_RUN:
        (run.path / name).write_bytes(b"{}")


def test_the_names_of_a_run():
    """A folder that was made once has to be found by every later version."""
    run = RunDir("runs/mine")
    names = {
        "config_file": "config.yaml",
        "tokenizer_file": "tokenizer.json",
        "plan_file": "shapes.json",
        "start_report_file": "init_from.json",
        "metrics_file": "metrics.jsonl",
        "measures_file": "measures.jsonl",
        "report_file": "report.json",
        "lock_file": ".lock",
        "checkpoints": "checkpoints",
        "best": "best",
        "samples": "samples",
        "events": "events",
        "evidence": "evidence",
        "evaluation": "evaluation",
        "voices": "voices",
        "speakers_file": "speakers.safetensors",
        "measuring": ".measuring",
    }
    for attribute, name in names.items():
        assert getattr(run, attribute) == Path("runs/mine") / name
    assert run.sample_file(7) == Path("runs/mine/samples/step_00000007.wav")
    assert run.alignment_file(7) == Path("runs/mine/samples/step_00000007_alignment.png")


def test_the_names_are_those_that_a_trained_run_has(trained_run):
    run = RunDir(trained_run)
    expected = {
        *(run.config_file, run.tokenizer_file, run.plan_file, run.metrics_file, run.report_file),
        *(run.checkpoints, run.best, run.samples, run.events),
    }
    assert expected <= set(trained_run.iterdir())
    assert run.sample_file(6).is_file()
    assert run.alignment_file(6).is_file()


def test_it_stands_for_its_path(tmp_path):
    for given in (str(tmp_path), tmp_path, RunDir(tmp_path)):
        run = RunDir(given)
        assert run == RunDir(tmp_path)
        assert f"{run}" == os.fspath(run) == str(tmp_path)


def test_a_run_is_held_by_its_configuration(tmp_path):
    run = RunDir(tmp_path / "some" / "run")
    with pytest.raises(CheckpointError, match="no such folder"):
        run.require_folder()
    run.make()
    run.make()
    run.require_folder()
    assert not run.holds_a_run
    start(run)
    assert run.holds_a_run
    assert run.files_for_checkpoints() == dict.fromkeys(FILES_OF_RUN, b"{}")


def test_runs_are_numbered_and_numbers_that_are_taken_are_passed_over(tmp_path):
    runs = tmp_path / "runs"
    assert RunDir.make_next_in(runs) == RunDir(runs / "0001")
    (runs / "0002").touch()
    assert RunDir.make_next_in(runs) == RunDir(runs / "0003")


def test_the_newest_run_is_the_one_that_was_saved_last(tmp_path):
    assert RunDir.newest_in(tmp_path / "none") is None
    start(RunDir(tmp_path / "c-unsaved"))
    (tmp_path / "d.txt").touch()
    assert RunDir.newest_in(tmp_path) is None
    for name, time in (("a", 2_000), ("b", 1_000)):
        folder = save(RunDir(tmp_path / name), 1)
        os.utime(folder / "manifest.json", (time, time))
    assert RunDir.newest_in(tmp_path) == RunDir(tmp_path / "a")
    os.utime(folder / "manifest.json", (2_000, 2_000))
    assert RunDir.newest_in(tmp_path) == RunDir(tmp_path / "b")


def test_checkpoints_of_a_run_and_the_best_of_them(tmp_path):
    run = RunDir(tmp_path)
    start(run)
    with pytest.raises(CheckpointError, match="contains no checkpoint"):
        run.newest_checkpoint()
    with pytest.raises(CheckpointError):
        run.best_checkpoint()
    folders = [save(run, step) for step in (1, 2)]
    assert run.checkpoint_folders() == folders
    assert run.has_checkpoint(2)
    assert not run.has_checkpoint(3)
    assert run.newest_checkpoint().info.step == 2
    run.keep_as_best(folders[0])
    assert run.best_checkpoint().info.step == 1
    assert find_checkpoint(str(tmp_path)).folder == folders[1]
    assert find_checkpoint(run).folder == folders[1]
    assert find_checkpoint(run.best, for_synthesis=True).folder == run.best


def test_the_run_around_a_folder_to_speak_with(tmp_path):
    run = RunDir(tmp_path / "run")
    start(run)
    folder = save(run, 1)
    run.keep_as_best(folder)
    alone = folder.rename(tmp_path / "alone")
    folder = save(run, 2)
    assert RunDir.around(run.path) == run
    assert RunDir.around(run.best) == run
    assert RunDir.around(folder) == run
    assert RunDir.around(alone) == RunDir(alone)


def test_lines_of_both_files_and_those_that_a_resumed_run_repeats(tmp_path):
    run = RunDir(tmp_path)
    assert run.metric_lines() == run.measure_lines() == []
    run.drop_lines_after(0)
    assert list(tmp_path.iterdir()) == []
    run.metrics_file.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"st')
    run.measures_file.write_text('{"step": 3}\n')
    assert [line["step"] for line in run.metric_lines()] == [1, 2, 3]
    run.drop_lines_after(2)
    assert run.metrics_file.read_text() == '{"step": 1}\n{"step": 2}\n'
    assert run.measure_lines() == []
    assert set(tmp_path.iterdir()) == {run.metrics_file, run.measures_file}


def test_what_a_killed_run_had_begun_is_removed_and_the_rest_stays(tmp_path):
    run = RunDir(tmp_path)
    start(run)
    folder = save(run, 1)
    begun = [
        run.checkpoints / ".step_00000002.0123abcd.part",
        run.checkpoints / ".step_00000001.0123abcd.replaced",
        run.path / ".best.0123abcd.part",
    ]
    for part in begun:
        part.mkdir()
        (part / "model.safetensors").touch()
    run.samples.mkdir()
    run.voices.mkdir()
    files = [
        run.path / ".report.json.0123abcd.part",
        run.samples / ".step_00000001.wav.0123abcd.part",
    ]
    voice = run.voices / ".anna.json.0123abcd.part"
    for file in (*files, voice, run.lock_file):
        file.touch()
    run.remove_unfinished()
    assert not any(path.exists() for path in (*begun, *files))
    assert voice.is_file()
    assert run.lock_file.is_file()
    assert run.newest_checkpoint().folder == folder


def test_two_runs_do_not_share_a_folder(tmp_path):
    run = RunDir(tmp_path)
    with (
        run.lock(),
        pytest.raises(CheckpointError, match="is in use by another run"),
        RunDir(tmp_path).lock(),
    ):
        pass
    with run.lock():
        pass
