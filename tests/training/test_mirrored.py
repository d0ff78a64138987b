"""N replicas give the weights of one device with the same global batch, on virtual devices."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from myxtts.runs.run_dir import find_checkpoint

STEPS = 20
# Replicas, micro-batches, XLA: two cases by default, all of them with the slow tests.
CASES = [(2, 1, False), (2, 4, False)]
CASES += [
    pytest.param(*case, marks=pytest.mark.slow)
    for case in itertools.product((2, 4), (1, 4), (False, True))
    if case not in CASES
]


@pytest.fixture(scope="module")
def train(demo_corpus, miniature, user_environment, tmp_path_factory):
    """Train on virtual devices: what was printed and where the run is. Each case once."""
    finished = {}

    def run(replicas, accumulation, xla, precision="float32"):
        case = (replicas, accumulation, xla, precision)
        if case not in finished:
            run_dir = tmp_path_factory.mktemp("mirrored") / "run"
            config = miniature(
                batch_size=16 // accumulation,
                # With several, batch sizes follow from the number of shares.
                shape_count=1,
                gradient_accumulation_steps=accumulation,
                xla=xla,
                precision=precision,
                clip_norm=0.5,
                # The moments of AdamW turn rounding in gradients near zero into whole steps.
                learning_rate=5e-4,
                max_steps=STEPS,
                evaluate_every=STEPS,
                save_every=STEPS,
            )
            program = Path(__file__).with_name("mirrored_program.py")
            result = subprocess.run(
                [sys.executable, str(program), str(run_dir), str(replicas)],
                input=json.dumps(config.as_dict()),
                capture_output=True,
                text=True,
                env=user_environment,
                check=False,
            )
            assert result.returncode == 0, result.stderr
            finished[case] = json.loads(result.stdout.splitlines()[-1]), run_dir
        return finished[case]

    return run


@pytest.mark.parametrize(("replicas", "accumulation", "xla"), CASES)
def test_replicas_equal_one_device_with_the_global_batch(train, replicas, accumulation, xla):
    one, expected = train(1, 1, xla)
    several, found = train(replicas, accumulation, xla)
    assert one["strategy"] == "OneDeviceStrategy"
    assert several["strategy"] == "MirroredStrategy"
    assert several["traces"] == 1
    assert several["compilations_after_warmup"] == 0
    expected, found = (find_checkpoint(run).training_state() for run in (expected, found))
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5, err_msg=name)


def test_weights_and_gradients_are_on_the_devices_that_were_asked_for(train):
    one, _ = train(1, 1, False)
    assert one["devices_of_weights"] == one["devices_of_gradients"] == ["CPU:0"]
    several, _ = train(2, 1, False)
    assert several["devices_of_weights"] == several["model_devices"] == ["CPU:0", "CPU:1"]
    assert several["devices_of_gradients"] == ["CPU:0", "CPU:1"]


# The reference is the one that the other tests train anyway.
@pytest.mark.slow
@pytest.mark.parametrize("xla", [False, True])
def test_the_loss_scale_is_the_same_on_all_replicas(train, xla):
    _, expected = train(1, 1, xla)
    several, found = train(2, 1, xla, "float16")
    assert several["strategy"] == "MirroredStrategy"
    assert several["traces"] == 1
    expected, found = (find_checkpoint(run).training_state() for run in (expected, found))
    assert found["loss_scale/good_steps"] == STEPS
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=5e-3, err_msg=name)
