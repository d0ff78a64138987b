import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from myxtts.training.checkpoints import find_checkpoint

ROOT = Path(__file__).parents[2]


def train(demo_corpus, miniature, run_dir, devices, accumulation=1):
    """A finished run on virtual devices: what it printed and where its weights are."""
    settings = {
        name: value
        for section in miniature(max_steps=4, evaluate_every=4, save_every=4).as_dict().values()
        for name, value in section.items()
        if name not in ("train_data", "gradient_accumulation_steps")
    }
    result = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).with_name("mirrored_program.py")),
            *map(str, (demo_corpus, run_dir, devices, accumulation)),
        ],
        input=json.dumps(settings),
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1]), find_checkpoint(run_dir).training_state()


def test_replicas_equal_one_device_with_the_global_batch(demo_corpus, miniature, tmp_path):
    one, expected = train(demo_corpus, miniature, tmp_path / "one", 1)
    two, found = train(demo_corpus, miniature, tmp_path / "two", 2, accumulation=2)
    assert one["strategy"] == "OneDeviceStrategy"
    assert two["strategy"] == "MirroredStrategy"
    assert one["traces"] == two["traces"] == 1
    assert one["devices_of_weights"] == ["CPU:0"]
    assert two["devices_of_weights"] == two["model_devices"] == ["CPU:0", "CPU:1"]
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5, err_msg=name)
