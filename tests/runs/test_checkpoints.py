import json
import os
import random
import shutil
import threading

import numpy as np
import pytest
from safetensors.numpy import load_file

from myxtts.errors import CheckpointError
from myxtts.runs.checkpoint import FILES_OF_RUN, CheckpointInfo, CheckpointWriter, save_checkpoint
from myxtts.runs.run_dir import RunDir, append_line, find_checkpoint

STATE = {
    "step": np.array(7),
    "weights/a/b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "average/a/b": np.full((2, 3), 0.5, np.float32),
}

PAIRS = ("interval_frames", "frames", "work")


def save(run_dir, step, keep=3, state=STATE):
    info = CheckpointInfo(
        step=step, mel_mean=-5.5, mel_deviation=2.0, metrics={"loss": 1.5}, seconds={"wall": 9.0}
    )
    files = dict.fromkeys(FILES_OF_RUN, b"{}")
    return save_checkpoint(RunDir(run_dir).checkpoints, info, state, files, keep)


def damage(file, place=None):
    content = bytearray(file.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 1
    file.write_bytes(content)


def steps(run_dir):
    return [int(folder.name[5:]) for folder in RunDir(run_dir).checkpoint_folders()]


def test_the_newest_is_found_and_old_ones_go(tmp_path):
    for step in (5, 10, 100, 20_000_000, 1_000_000_000):
        save(tmp_path, step)
    found = find_checkpoint(tmp_path)
    assert found.info.step == 1_000_000_000
    assert (found.info.metrics, found.info.seconds) == ({"loss": 1.5}, {"wall": 9.0})
    assert steps(tmp_path) == [100, 20_000_000, 1_000_000_000]


def test_everything_comes_back_as_it_was(tmp_path):
    folder = save(tmp_path, 7)
    state = find_checkpoint(tmp_path).training_state()
    assert set(state) == set(STATE)
    for name, value in STATE.items():
        np.testing.assert_array_equal(state[name], value)
        assert state[name].dtype == value.dtype
    # The averaged weights by their own names, for any program that reads safetensors.
    assert load_file(folder / "model.safetensors")["a/b"].shape == (2, 3)


def test_saving_again_keeps_a_whole_one_and_replaces_a_damaged_one(tmp_path):
    folder = save(tmp_path, 1)
    save(tmp_path, 1)
    damage(folder / "training.safetensors")
    assert not RunDir(tmp_path).has_checkpoint(1)
    save(tmp_path, 1)
    assert RunDir(tmp_path).has_checkpoint(1)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step_00000001"]


def test_folders_that_are_not_runs(tmp_path):
    with pytest.raises(CheckpointError, match="no such folder"):
        find_checkpoint(tmp_path / "none")
    with pytest.raises(CheckpointError, match="contains no checkpoint"):
        find_checkpoint(tmp_path)


def test_one_checkpoint_can_be_named_itself(tmp_path):
    folders = [save(tmp_path, step) for step in (1, 2)]
    assert find_checkpoint(folders[0]).info.step == 1


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", "null", json.dumps({"format": "other", "version": 1})],
)
def test_another_format_is_refused(tmp_path, content):
    (save(tmp_path, 1) / "manifest.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        find_checkpoint(tmp_path)


def test_a_later_version_is_refused_by_its_number(tmp_path):
    file = save(tmp_path, 1) / "manifest.json"
    file.write_text(file.read_text().replace('"version": 1', '"version": 9'))
    with pytest.raises(CheckpointError, match="version 9, this program reads 1"):
        find_checkpoint(tmp_path)


def test_a_changed_byte_is_noticed_wherever_it_is(tmp_path):
    """At 50 random places, over all files of a checkpoint, the manifest included."""
    generator = random.Random(0)
    folder = save(tmp_path, 1)
    files = sorted(folder.iterdir())
    sizes = [file.stat().st_size for file in files]
    for _ in range(50):
        (file,) = generator.choices(files, sizes)
        whole = file.read_bytes()
        damage(file, generator.randrange(len(whole)))
        with pytest.raises(CheckpointError, match=file.name):
            find_checkpoint(tmp_path)
        file.write_bytes(whole)
    assert find_checkpoint(tmp_path).info.step == 1


def test_a_damaged_one_is_named_and_the_one_before_is_used(tmp_path, caplog):
    save(tmp_path, 1)
    damage(save(tmp_path, 2) / "model.safetensors")
    (save(tmp_path, 3) / "training.safetensors").unlink()
    (tmp_path / "checkpoints" / "step_00000004").mkdir()
    assert find_checkpoint(tmp_path).info.step == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    for name in ("step_00000002/model", "step_00000003/training", "step_00000004/manifest"):
        assert name in caplog.text
    # To speak, the training state is not needed.
    assert find_checkpoint(tmp_path, for_synthesis=True).info.step == 3


def test_when_all_are_damaged_it_says_so(tmp_path):
    for step in (1, 2):
        damage(save(tmp_path, step) / "config.yaml", 0)
    with pytest.raises(CheckpointError, match="all 2 checkpoints are damaged"):
        find_checkpoint(tmp_path)


def test_a_damaged_newer_one_does_not_push_out_whole_ones(tmp_path):
    save(tmp_path, 1)
    damage(save(tmp_path, 9) / "model.safetensors")
    save(tmp_path, 2, keep=1)
    assert find_checkpoint(tmp_path).info.step == 2


def test_an_unwritable_place(tmp_path):
    (tmp_path / "checkpoints").touch()
    with pytest.raises(CheckpointError, match="cannot be written"):
        save(tmp_path, 1)


def test_too_little_space_is_said_before_anything_is_written(tmp_path):
    save(tmp_path, 1)
    free = shutil.disk_usage(tmp_path).free
    # Memory that is never touched: an array larger than the disk costs nothing.
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (free,), (0,))
    with pytest.raises(CheckpointError, match="not enough disk space"):
        save(tmp_path, 2, state={"weights/a": huge})
    assert steps(tmp_path) == [1]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1


def test_a_full_disk_gives_up_old_checkpoints_but_not_the_newest_whole_one(tmp_path, monkeypatch):
    state = {"weights/a": np.zeros(300_000, np.float32)}
    one = 1_300_000

    def usage(folder):
        used = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        return shutil._ntuple_diskusage(0, 0, 2 * one + (1 << 20) - used)

    for step in (1, 2, 3):
        save(tmp_path, step, state=state)
    damage(tmp_path / "checkpoints" / "step_00000003" / "model.safetensors")
    monkeypatch.setattr(shutil, "disk_usage", usage)
    with pytest.raises(CheckpointError, match="not enough disk space"):
        save(tmp_path, 4, state=state)
    assert steps(tmp_path) == [2, 3]
    shutil.rmtree(tmp_path / "checkpoints" / "step_00000003")
    save(tmp_path, 4, state=state)
    assert steps(tmp_path) == [2, 4]


def test_a_kill_while_cleaning_leaves_no_half_of_a_checkpoint(tmp_path, monkeypatch):
    save(tmp_path, 1)

    def killed(folder, **_):
        (folder / "manifest.json").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, 2, keep=1)
    assert steps(tmp_path) == [2]
    RunDir(tmp_path).remove_unfinished()
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step_00000002"]


@pytest.fixture
def writer(tmp_path):
    for name in FILES_OF_RUN:
        (tmp_path / name).write_bytes(b"{}")
    run = RunDir(tmp_path)
    return CheckpointWriter(
        run.checkpoints, run.files_for_checkpoints(), keep=2, before=run.sync_lines
    )


def info_of(step):
    return CheckpointInfo(step=step, mel_mean=0.0, mel_deviation=1.0)


def test_checkpoints_are_written_in_a_thread_and_whole_at_the_end(writer, tmp_path):
    with writer:
        for step in range(1, 5):
            writer.save(info_of(step), STATE)
    assert steps(tmp_path) == [3, 4]
    assert find_checkpoint(tmp_path).info.step == 4
    assert not any(thread.name.startswith("checkpoints") for thread in threading.enumerate())


def test_lines_are_on_the_disk_before_a_checkpoint_is_there(writer, tmp_path, monkeypatch):
    """After a power cut a resumed run can make up the line of its step, and no earlier one."""
    run = RunDir(tmp_path)
    append_line(run.metrics_file, 1, {"loss": 1.0})
    lines, synced = run.metrics_file.stat().st_ino, []
    sync = os.fsync

    def remember(descriptor):
        synced.append((os.fstat(descriptor).st_ino, bool(steps(tmp_path))))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", remember)
    with writer:
        writer.save(info_of(1), STATE)
    assert (lines, False) in synced
    assert steps(tmp_path) == [1]


def test_a_failed_checkpoint_is_warned_of_and_the_next_one_tried(writer, tmp_path, caplog):
    with writer:
        (tmp_path / "checkpoints").touch()
        writer.save(info_of(1), STATE)
        with pytest.raises(CheckpointError):
            writer.wait()
        (tmp_path / "checkpoints").unlink()
        writer.save(info_of(2), STATE)
    assert steps(tmp_path) == [2]
    assert "step 1 was not saved" in caplog.text


def test_a_last_checkpoint_that_failed_is_an_error(writer, tmp_path):
    (tmp_path / "checkpoints").touch()
    with pytest.raises(CheckpointError, match="cannot be written"), writer:
        writer.save(info_of(1), STATE)


def test_another_error_is_not_hidden_by_that_of_the_checkpoint(writer, tmp_path):
    (tmp_path / "checkpoints").touch()
    writer.save(info_of(1), STATE)
    with pytest.raises(ZeroDivisionError), writer:
        _ = 1 // 0
