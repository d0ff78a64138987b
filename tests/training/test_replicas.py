"""The trial before a mirrored run, on virtual devices in processes of their own."""

import json
import subprocess
import sys
import threading

import pytest

from myxtts.training.step import ReplicasFailedError, try_replicas
from myxtts.training.trainer import XTTSTrainer

PROGRAM = """
import json, sys
from pathlib import Path
import tensorflow as tf
from myxtts.config.config import XTTSConfig
from myxtts.devices.strategy import find_accelerators
from myxtts.errors import MyXTTSError
from myxtts.training.trainer import XTTSTrainer
from myxtts.devices import strategy as devices
from myxtts.training import train


class LeavesReplicasAlone(tf.distribute.ReductionToOneDevice):
    '''A fault like a broken link: every replica keeps what it had.'''

    def reduce_implementation(self, reduce_op, value, destinations, options):
        return value

    def batch_reduce_implementation(self, reduce_op, pairs, options):
        return [value for value, _ in pairs]


config = XTTSConfig(**json.loads(sys.stdin.read()))
accelerators = find_accelerators(2)
links = {"broken": LeavesReplicasAlone, "sound": tf.distribute.ReductionToOneDevice}
reduction = links[sys.argv[2]]()
strategy = tf.distribute.MirroredStrategy(list(accelerators.devices), cross_device_ops=reduction)
train.load_tensorflow = lambda cache: None
devices.set_up_devices = lambda config: devices.Devices(strategy, None, "")
fitted, fit = [], XTTSTrainer.fit


def fit_and_tell(self):
    fitted.append(int(self.optimizer.step.numpy()))
    return fit(self)


XTTSTrainer.fit = fit_and_tell
try:
    report = train.train(config, sys.argv[1])
    (step_before,) = fitted
    print(json.dumps([step_before, report.strategy, report.model_devices]))
except MyXTTSError as error:
    print(json.dumps(str(error)))
"""


@pytest.fixture
def start(miniature, user_environment, tmp_path):
    def run(link, **settings):
        config = miniature(max_steps=3, evaluate_every=9, save_every=9, **settings)
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "run"), link],
            input=json.dumps(config.as_dict()),
            capture_output=True,
            text=True,
            env=user_environment,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout.splitlines()[-1]), result.stderr

    return run


@pytest.mark.slow
def test_replicas_that_agree_start_as_if_never_tried(start):
    (step, strategy, devices), _ = start("sound")
    assert (step, strategy, devices) == (0, "MirroredStrategy", ["CPU:0", "CPU:1"])


def test_replicas_that_differ_leave_one_device_to_go_on(start):
    (step, strategy, devices), errors = start("broken")
    assert (step, strategy, devices) == (0, "OneDeviceStrategy", ["CPU:0"])
    assert "mirrored training does not work here" in errors
    assert "the weights of the replicas differ by up to" in errors
    assert "continuing on CPU:0 alone" in errors


@pytest.mark.slow
def test_strict_devices_stop_instead(start):
    message, _ = start("broken", strict_devices=True)
    assert "the weights of the replicas differ" in message


def test_a_trial_that_never_ends_is_given_up(miniature, corpus, tmp_path):
    trainer = XTTSTrainer(miniature(), corpus, tmp_path / "run")
    stuck = threading.Event()
    with pytest.raises(ReplicasFailedError, match="did not end within 0 s; is a link"):
        try_replicas(lambda batch, update: stuck.wait(), trainer.optimizer, [None], 0.2)
    stuck.set()
