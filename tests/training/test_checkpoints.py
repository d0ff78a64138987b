import json

import numpy as np
import pytest

from myxtts.errors import CheckpointError
from myxtts.training.checkpoints import CheckpointInfo, find_checkpoint, save_checkpoint


def save(run_dir, step, keep=3):
    weights = {"a/b": np.full((2, 3), step, np.float32)}
    info = CheckpointInfo(step=step, mel_mean=-5.5, mel_deviation=2.0)
    return save_checkpoint(run_dir, info, weights, {"step": np.array(step)}, keep)


def test_the_newest_is_found_and_old_ones_go(tmp_path):
    for step in (5, 10, 100, 20_000_000):
        save(tmp_path, step)
    found = find_checkpoint(tmp_path)
    assert found.info == CheckpointInfo(step=20_000_000, mel_mean=-5.5, mel_deviation=2.0)
    assert found.averaged_weights()["a/b"][0, 0] == 20_000_000
    assert len(list((tmp_path / "checkpoints").iterdir())) == 3


def test_a_half_written_checkpoint_is_not_one(tmp_path):
    save(tmp_path, 1)
    (tmp_path / "checkpoints" / "step_00000002").mkdir()
    assert find_checkpoint(tmp_path).info.step == 1


def test_saving_again_replaces(tmp_path):
    save(tmp_path, 1)
    save(tmp_path, 1)
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1


def test_folders_that_are_not_runs(tmp_path):
    with pytest.raises(CheckpointError, match="no such folder"):
        find_checkpoint(tmp_path / "none")
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        find_checkpoint(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"format": "other", "step": 1})])
def test_another_format_is_refused(tmp_path, content):
    (save(tmp_path, 1) / "checkpoint.json").write_text(content)
    with pytest.raises(CheckpointError, match="not a checkpoint of this version"):
        find_checkpoint(tmp_path)


def test_damaged_weights_are_named(tmp_path):
    (save(tmp_path, 1) / "model.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: cannot be read"):
        find_checkpoint(tmp_path).averaged_weights()


def test_an_unwritable_place(tmp_path):
    (tmp_path / "checkpoints").touch()
    with pytest.raises(CheckpointError, match="cannot be written"):
        save(tmp_path, 1)
