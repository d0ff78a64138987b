"""Two real processes that train together over the loopback."""

import json
import time

import numpy as np
import pytest

from myxtts.runs.run_dir import find_checkpoint
from myxtts.training.trainer import XTTSTrainer


def finished(process):
    output, errors = process.communicate(timeout=900)
    return process.returncode, output, errors


def test_two_machines_give_the_weights_of_one(start_machines, miniature, corpus, tmp_path):
    """Within 1e-5, because sums are rounded in another order, which every step amplifies."""
    machines = start_machines(2, "--run-dir", tmp_path / "two", "--max-steps", 3)
    XTTSTrainer(miniature(max_steps=3), corpus, tmp_path / "one").fit()
    for code, _, errors in map(finished, machines):
        assert code == 0, errors
    report = json.loads((tmp_path / "two" / "report.json").read_text())
    assert report["strategy"] == "MultiWorkerMirroredStrategy"
    assert report["traces"] == 1
    one, two = (find_checkpoint(tmp_path / run) for run in ("one", "two"))
    for name, value in one.training_state().items():
        np.testing.assert_allclose(two.training_state()[name], value, atol=1e-5, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_machine_leaves_a_checkpoint_that_one_continues_from(start_machines, tmp_path, lost):
    run_dir = tmp_path / "run"
    machines = start_machines(
        *(2, "--run-dir", run_dir, "--max-steps", 100_000, "--set=saving.log_every=1"),
        *("--save-every", 100_000, "--evaluate-every", 100_000),
    )
    metrics = run_dir / "metrics.jsonl"
    deadline = time.monotonic() + 240
    while not (metrics.exists() and metrics.read_text().count("\n") >= 3):
        assert time.monotonic() < deadline
        assert all(machine.poll() is None for machine in machines), finished(machines[0])
        time.sleep(0.2)
    machines[lost].kill()
    code, _, errors = finished(machines[1 - lost])
    assert code == 2
    last_line = errors.strip().splitlines()[-1]
    assert last_line.startswith("myxtts train: another machine was lost after step")
    step = find_checkpoint(run_dir).info.step
    assert step >= 3
    (alone,) = start_machines(1, "--resume", run_dir, "--max-steps", step + 2)
    code, _, errors = finished(alone)
    assert code == 0, errors
    assert find_checkpoint(run_dir).info.step == step + 2


def test_machines_stop_together_and_save_if_one_is_told_to(start_machines, tmp_path):
    run_dir = tmp_path / "run"
    machines = start_machines(
        *(2, "--run-dir", run_dir, "--max-steps", 100_000, "--set=saving.log_every=1"),
        *("--save-every", 100_000, "--evaluate-every", 100_000),
    )
    metrics = run_dir / "metrics.jsonl"
    deadline = time.monotonic() + 240
    while not (metrics.exists() and metrics.read_text().count("\n") >= 3):
        assert time.monotonic() < deadline
        assert all(machine.poll() is None for machine in machines), finished(machines[0])
        time.sleep(0.2)
    machines[1].terminate()
    (chief, _, errors), (told, _, _) = map(finished, machines)
    assert (chief, told) == (0, 143), errors
    step = find_checkpoint(run_dir).info.step
    report = json.loads((run_dir / "report.json").read_text())
    assert (report["state"], report["steps"]) == ("interrupted", step)


def test_several_machines_need_a_folder_that_all_see(start_machines):
    for code, _, errors in map(finished, start_machines(2)):
        assert code == 2
        assert "--run-dir: is required for training on 2 machines" in errors
