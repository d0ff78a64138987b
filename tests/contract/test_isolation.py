"""GPU memory isolation as typed into Python, on TensorFlow with a list of simulated GPUs."""

from __future__ import annotations

import json
import subprocess
import sys

# There is no public way to simulate GPUs; everything but their listing is TensorFlow's own.
TWO_GPUS = """
import sys
sys.modules["pynvml"] = None  # whatever cards this machine has
from tensorflow.python.eager import context
names = ["CPU:0", "GPU:0", "GPU:1"]
context.pywrap_tfe.TF_ListPhysicalDevices = lambda: [
    f"/physical_device:{name}".encode() for name in names
]
"""
TYPED = """
from myxtts.utils.gpu_memory import setup_gpu_memory_isolation

isolated = setup_gpu_memory_isolation(
    data_gpu_id=0, model_gpu_id=1, data_gpu_memory_limit=8192, model_gpu_memory_limit=16384
)
"""
WRONG = """
wrong = [
    setup_gpu_memory_isolation(data_gpu_id=0, model_gpu_id=2),
    setup_gpu_memory_isolation(data_gpu_id=1, model_gpu_id=1),
    setup_gpu_memory_isolation(data_gpu_memory_limit=0),
    setup_gpu_memory_isolation(data_gpu_memory_limit=None),
    setup_gpu_memory_isolation(model_gpu_id="1"),
]
"""
ASK = """
import json
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
limits = [tf.config.get_logical_device_configuration(gpu) for gpu in gpus]
growth = [tf.config.experimental.get_memory_growth(gpu) for gpu in gpus]
print(json.dumps([isolated, wrong, [limit[0].memory_limit for limit in limits], growth]))
"""


def test_isolation_as_typed(user_environment):
    logs = "import logging\nlogging.basicConfig(level=logging.INFO)\n"
    result = subprocess.run(
        [sys.executable, "-c", logs + TWO_GPUS + TYPED + WRONG + ASK],
        capture_output=True,
        text=True,
        env=user_environment | {"CUDA_VISIBLE_DEVICES": "-1"},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    isolated, wrong, limits, growth = json.loads(result.stdout)
    assert isolated is True
    assert wrong == [False] * 5
    assert limits == [8192, 16384]
    assert growth == [None, None]
    assert "limits are set by tf.config.set_logical_device_configuration" in result.stderr
    assert "its limit of 8192 MB is in force but could not be checked" in result.stderr
    for problem in (
        "model_gpu_id: found 2, allowed: 0, 1",
        "found 1 for both",
        "data_gpu_memory_limit: found 0, allowed: 1 MB or more",
        "data_gpu_memory_limit: found None, expected a whole number",
        "model_gpu_id: found '1', expected a whole number",
    ):
        assert problem in result.stderr
